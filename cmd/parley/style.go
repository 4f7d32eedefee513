package main

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// The command's JSON has one style, whatever type a value has in Go. Names are in snake_case, times
// in RFC 3339. Absent values are null; lists are never null. Durations are numbers of seconds in
// "…_seconds". Bytes are text, or base64 in "…_base64" if they are not UTF-8.

// field is one of an object, whose fields keep their order.
type field struct {
	name  string
	value any
}

type object []field

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, f := range o {
		b.WriteByte("{,"[min(i, 1)])
		if err := enc.Encode(f.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(f.value); err != nil {
			return nil, err
		}
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// styled turns v into what package json writes in that style.
func styled(v any) any { return style(reflect.ValueOf(v)) }

func style(v reflect.Value) any {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return nil
		}
		return x.UTC().Format(time.RFC3339Nano)
	case json.Marshaler:
		return x
	case backend.ID:
		if x == (backend.ID{}) {
			return nil
		}
		return x
	case encoding.TextMarshaler:
		return x
	case error:
		if v.Kind() == reflect.Interface { // an error of a type that is known has fields
			return x.Error()
		}
	case fmt.Stringer:
		if v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer {
			return x.String()
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return style(v.Elem())
	case reflect.Struct:
		return appendFields(object{}, v)
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = style(v.Index(i))
		}
		return list
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = style(it.Value())
		}
		return m
	}
	return v.Interface()
}

// appendFields adds the exported fields of a struct, and those of structs in it that have no
// name of their own.
func appendFields(o object, v reflect.Value) object {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			o = appendFields(o, x)
			continue
		case !f.IsExported(), tag == "-", f.Type.Kind() == reflect.Func, options == "omitempty" && x.IsZero():
			continue
		}
		name := snake(f.Name)
		if tag != "" {
			name = tag
		}
		switch x := x.Interface().(type) {
		case time.Duration:
			o = append(o, field{name + "_seconds", x.Seconds()})
		case []byte:
			o = append(o, bytesField(name, x))
		default:
			o = append(o, field{name, style(v.Field(i))})
		}
	}
	return o
}

func bytesField(name string, b []byte) field {
	switch {
	case b == nil:
		return field{name, nil}
	case utf8.Valid(b):
		return field{name, string(b)}
	}
	return field{name + "_base64", base64.StdEncoding.EncodeToString(b)}
}

// snake turns the name of a Go field into snake_case: LastError, ID, NextSeq, FarID.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
