package parley

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// RegisterValidator gives this process the Go function that types with
// ValidationFunc name. Register all before the first Send; a later one of the
// same name replaces it.
func (b *Broker) RegisterValidator(name string, check func(body []byte) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.validators[name] = check
}

// checked returns a payload as it is stored, and the reason if its body is not valid. allows says
// whether the type may be sent.
func (b *Broker) checked(v *catalogView, p Payload, allows func(typ string) error) (_ Payload, why, err error) {
	if p.Type == "" {
		p.Type = DefaultType
	}
	t, err := b.formed(v, p, allows)
	if err != nil {
		return p, nil, err
	}
	if why, err = b.invalid(t, p.Body); len(p.Body) == 0 {
		p.Body = nil
	}
	return p, why, err
}

// formed returns the type of a payload, or why it cannot be sent, whatever is in its body.
func (b *Broker) formed(v *catalogView, p Payload, allows func(typ string) error) (t MessageType, err error) {
	t, ok := v.types[cmp.Or(p.Type, DefaultType)]
	if !ok {
		return t, fmt.Errorf("message type %q: %w", p.Type, ErrUnknownType)
	}
	if err := allows(t.Name); err != nil {
		return t, err
	}
	size, err := headerBytes(p.Headers)
	if size += len(p.Body); err == nil && size > b.opt.MaxBody {
		err = fmt.Errorf("%d bytes, with at most %d allowed: %w", size, b.opt.MaxBody, ErrTooLarge)
	}
	return t, err
}

// headerBytes returns how many bytes headers have, or why they cannot be sent.
func headerBytes(headers map[string]string) (size int, err error) {
	for name, value := range headers {
		switch {
		case name == "" || !backend.IsText(name) || strings.HasPrefix(name, backend.ReservedHeader):
			return 0, fmt.Errorf("header %.100q: want a name of UTF-8 without zero bytes that does not begin with %q: %w",
				name, backend.ReservedHeader, ErrInvalidName)
		case !backend.IsText(value):
			return 0, fmt.Errorf("header %.100q: want a value of UTF-8 without zero bytes: %w", name, ErrInvalidOption)
		}
		size += len(name) + len(value)
	}
	if len(headers) > backend.MaxHeaders || size > backend.MaxHeaderBytes {
		return 0, fmt.Errorf("%d headers with %d bytes, with at most %d and %d allowed: %w",
			len(headers), size, backend.MaxHeaders, backend.MaxHeaderBytes, ErrTooLarge)
	}
	return size, nil
}

// invalid says why a body is not what its type asks for; nil if it is. Any type
// but one with a Go function takes an empty body, as in Service Broker. err is
// ErrNoValidator.
func (b *Broker) invalid(t MessageType, body []byte) (why, err error) {
	switch t.Validation {
	case ValidationEmpty:
		if len(body) > 0 {
			return fmt.Errorf("%d bytes where none are allowed", len(body)), nil
		}
	case ValidationXML:
		if len(body) > 0 {
			return wellFormed(body), nil
		}
	case ValidationJSON:
		if len(body) > 0 && !utf8.Valid(body) {
			return errors.New("not JSON: it is not UTF-8"), nil
		}
		if len(body) > 0 && !json.Valid(body) {
			return errors.New("not JSON"), nil
		}
	case ValidationFunc:
		b.mu.Lock()
		check := b.validators[t.Validator]
		b.mu.Unlock()
		if check == nil {
			return nil, fmt.Errorf("validator %q of message type %q: %w", t.Validator, t.Name, ErrNoValidator)
		}
		return guard.Sound(check(body)), nil
	}
	return nil, nil
}

// wellFormed accepts one element with what may stand around it.
func wellFormed(body []byte) error {
	d := xml.NewDecoder(bytes.NewReader(body))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // only the form matters here
	roots, depth := 0, 0
	for {
		t, err := d.Token()
		if err == io.EOF {
			if roots != 1 {
				return fmt.Errorf("not XML: %d elements at the top, want one", roots)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("not XML: %w", err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
			}
			depth++
			if err := noTwins(t); err != nil {
				return err
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if depth == 0 && len(bytes.TrimSpace(t)) > 0 {
				return errors.New("not XML: text outside the element")
			}
		}
	}
}

// noTwins refuses an element with two attributes of one name, which the decoder
// takes. Names are compared with their namespaces, as "Namespaces in XML" asks for.
func noTwins(e xml.StartElement) error {
	if len(e.Attr) < 2 {
		return nil
	}
	seen := make(map[xml.Name]bool, len(e.Attr))
	for _, a := range e.Attr {
		if seen[a.Name] {
			return fmt.Errorf("not XML: element %q has two attributes %q", e.Name.Local, a.Name.Local)
		}
		seen[a.Name] = true
	}
	return nil
}
