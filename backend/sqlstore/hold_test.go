package sqlstore

import (
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestHoldPosts: posts come in their order, however the engine returned them, and
// those that have no room are the last.
func TestHoldPosts(t *testing.T) {
	post := func(priority int, since int64, id byte) *Post {
		return &Post{ID: backend.ID{15: id}, Priority: priority, Since: since, Body: make([]byte, 10)}
	}
	posts := []*Post{post(5, 20, 4), post(5, 10, 3), post(5, 10, 2), post(9, 30, 1)}
	holds, leases := HoldPosts(backend.ClaimRequest{MaxBytes: 30}, posts)
	var got []byte
	for _, h := range holds {
		got = append(got, h.Group[15])
	}
	if string(got) != "\x01\x02\x03" || len(leases) != 0 {
		t.Errorf("the posts %v came, and the leases of %v are to be written; want 1, 2, 3 and none", got, leases)
	}
}
