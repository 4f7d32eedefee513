package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/parleymq/parley/backend"
)

// ID makes an id a destination for Scan: the engines return 16 bytes or the
// text form, and NULL is the zero id.
func ID(id *backend.ID) any { return (*idDest)(id) }

type idDest backend.ID

func (d *idDest) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d = idDest{}
	case []byte:
		if len(v) == len(d) {
			copy(d[:], v)
			return nil
		}
		return d.parse(string(v))
	case string:
		return d.parse(v)
	default:
		return fmt.Errorf("parley: an id came back as %T", src)
	}
	return nil
}

func (d *idDest) parse(s string) error {
	id, err := backend.ParseID(s)
	*d = idDest(id)
	return err
}

// Witness makes a number a destination for Scan that is never NULL. MySQL and MariaDB may end an interrupted
// statement without an error. Then each subquery that has not begun is NULL (Item_subselect::exec). So a NULL
// of a subquery alone does not prove that something is absent. It does if a later subquery of the row, which
// always finds something, has found it: the row's witness.
func Witness[T int | int64](n *T) any { return witnessDest[T]{n} }

type witnessDest[T int | int64] struct{ n *T }

func (d witnessDest[T]) Scan(src any) error {
	if src == nil {
		return errInterrupted
	}
	var n sql.NullInt64
	err := n.Scan(src)
	*d.n = T(n.Int64)
	return err
}

var errInterrupted = Classified(backend.ErrSerialization, errors.New("the statement was interrupted"))

// Body makes a message body a destination for Scan: NULL is nil, and an empty
// body is not.
func Body(b *[]byte) any { return (*bodyDest)(b) }

type bodyDest []byte

func (d *bodyDest) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d = nil
	case []byte:
		*d = append(make([]byte, 0, len(v)), v...) // the driver owns v
	case string:
		*d = bodyDest(v)
	default:
		return fmt.Errorf("parley: a body came back as %T", src)
	}
	return nil
}

// Text makes a string a destination for Scan that takes NULL as empty.
func Text(s *string) any { return (*textDest)(s) }

type textDest string

func (d *textDest) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d = ""
	case []byte:
		*d = textDest(v)
	case string:
		*d = textDest(v)
	default:
		return fmt.Errorf("parley: a text came back as %T", src)
	}
	return nil
}

// Attempts makes failed attempts a destination for Scan from their text; NULL is none.
func Attempts(list *[]backend.FailedAttempt) any { return (*attemptsDest)(list) }

type attemptsDest []backend.FailedAttempt

func (d *attemptsDest) Scan(src any) error {
	var text string
	err := Text(&text).(sql.Scanner).Scan(src)
	*d = backend.DecodeAttempts(text)
	return err
}

// storedAttempts are failed attempts as they are stored.
func storedAttempts(list []backend.FailedAttempt) any { return NullText(backend.EncodeAttempts(list)) }

// Int makes any integer a destination for Scan that takes NULL as zero.
func Int[T ~int | ~int64](n *T) any { return intDest[T]{n} }

type intDest[T ~int | ~int64] struct{ n *T }

func (d intDest[T]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d.n = 0
	case int64:
		*d.n = T(v)
	case []byte: // a sum that the engine made a decimal of
		return d.Scan(string(v))
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		*d.n = T(n)
		return err
	default:
		return fmt.Errorf("parley: a number came back as %T", src)
	}
	return nil
}

// Bool makes a bool a destination for Scan from 0 and 1; NULL is false.
func Bool(b *bool) any { return (*boolDest)(b) }

type boolDest bool

func (d *boolDest) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d = false
	case int64:
		*d = v != 0
	case bool:
		*d = boolDest(v)
	default:
		return fmt.Errorf("parley: a flag came back as %T", src)
	}
	return nil
}

// Null is an id that may be none.
func Null(id backend.ID) any {
	if id.IsZero() {
		return nil
	}
	return id
}

// NullText is a text that may be none.
func NullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// span is the time from one instant to another, both in microseconds, not below
// zero.
func span(from, to int64) time.Duration {
	return max(0, time.Duration(to-from)*time.Microsecond)
}
