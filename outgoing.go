package parley

import (
	"context"
	"maps"
)

// Outgoing is a message that a program sends or posts, as seen by Options.Outgoing.
type Outgoing struct {
	Queue      string // of a post
	Service    string // that sends on a conversation
	FarService string // to which it sends
	Type       string
	Body       []byte            // not to be changed
	Headers    map[string]string // may be changed; never nil
}

// outgoing shows a payload to Options.Outgoing and gives it the headers that are left.
func (b *Broker) outgoing(ctx context.Context, o Outgoing, p *Payload) error {
	o.Type, o.Body, o.Headers = p.Type, p.Body, make(map[string]string, len(p.Headers)+2)
	if o.Type == "" {
		o.Type = DefaultType
	}
	maps.Copy(o.Headers, p.Headers)
	err := b.opt.Outgoing(ctx, &o)
	p.Headers = o.Headers
	return err
}

// shown returns the messages of a batch as Options.Outgoing leaves them.
func (tx *Tx) shown(ctx context.Context, batch []Sending) ([]Sending, error) {
	if tx.b.opt.Outgoing == nil {
		return batch, nil
	}
	out := make([]Sending, len(batch))
	for i, s := range batch {
		f, err := s.To.known(ctx)
		if err == nil {
			err = tx.b.outgoing(ctx, Outgoing{Service: f.service, FarService: f.far}, &s.Payload)
		}
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// shownOne is shown for one message.
func (b *Broker) shownOne(ctx context.Context, service, far string, p *Payload) error {
	if b.opt.Outgoing == nil {
		return nil
	}
	return b.outgoing(ctx, Outgoing{Service: service, FarService: far}, p)
}

// shownPosts is shown for posts.
func (b *Broker) shownPosts(ctx context.Context, queue string, posts []Posting) ([]Posting, error) {
	if b.opt.Outgoing == nil {
		return posts, nil
	}
	out := make([]Posting, len(posts))
	for i, p := range posts {
		if err := b.outgoing(ctx, Outgoing{Queue: queue}, &p.Payload); err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

// shown is shown for what a Sender sends, once for each message, whichever dialog takes it.
func (s *Sender) shown(ctx context.Context, batch []Payload) ([]Payload, error) {
	o := s.pool.opt
	if s.pool.b.opt.Outgoing == nil {
		return batch, nil
	}
	out := make([]Payload, len(batch))
	for i, p := range batch {
		if err := s.pool.b.outgoing(ctx, Outgoing{Service: o.From, FarService: o.To}, &p); err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}
