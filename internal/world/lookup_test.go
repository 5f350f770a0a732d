package world

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// eachLookup calls f for each Lookup of a World that is a function.
func eachLookup(v reflect.Value, f func(name string, lookup reflect.Value)) {
	for i := range v.NumField() {
		switch field := v.Field(i); {
		case field.Kind() == reflect.Struct:
			eachLookup(field, f)
		case field.Kind() == reflect.Func && field.Type().NumIn() == 2:
			f(v.Type().Field(i).Name, field)
		}
	}
}

// Every Lookup of a World passes through each decorator: one that World.each does not name would be confined by nothing and be on no tape.
func TestEveryLookupIsDecorated(t *testing.T) {
	var w World
	eachLookup(reflect.ValueOf(&w).Elem(), func(name string, lookup reflect.Value) {
		lookup.Set(reflect.MakeFunc(lookup.Type(), func([]reflect.Value) []reflect.Value {
			return []reflect.Value{reflect.Zero(lookup.Type().Out(0)), reflect.Zero(lookup.Type().Out(1))}
		}))
	})
	var methods []string
	decorated := w.Through(func(ctx context.Context, c Call, next Next) (any, error) {
		methods = append(methods, c.Method)
		if c.Title() == "" || c.Request.Key().Asked == "" {
			t.Errorf("%s: the title %q, the key %+v", c.Method, c.Title(), c.Request.Key())
		}
		return next(ctx, c.Request)
	}, nil)
	lookups := 0
	eachLookup(reflect.ValueOf(&decorated).Elem(), func(name string, lookup reflect.Value) {
		lookups++
		before := len(methods)
		out := lookup.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.Zero(lookup.Type().In(1))})
		if len(methods) != before+1 || !out[1].IsNil() {
			t.Errorf("%s: %d decorators are called, %v", name, len(methods)-before, out[1])
		}
	})
	slices.Sort(methods)
	if names := slices.Compact(slices.Clone(methods)); lookups < 16 || len(names) != lookups {
		t.Errorf("%d lookups with the methods %v", lookups, names)
	}
}

// The names of methods identify recorded lookups, also those of the members that are interfaces.
func TestMembers(t *testing.T) {
	var members []string
	World{}.Through(nil, func(member string, has bool) bool {
		if has {
			t.Errorf("the zero World has %s", member)
		}
		members = append(members, member)
		return false
	})
	for _, want := range []string{"Signatures", "Seals", "Access", "KindFinder", "NamespaceObjects", "Digests"} {
		if !slices.Contains(members, want) {
			t.Errorf("there is no member %s in %v", want, members)
		}
	}
}

// An answer of another type is an error, and no empty answer.
func TestAnswerOf(t *testing.T) {
	failed := errors.New("failed")
	seven := 7
	for _, c := range []struct {
		answer any
		err    error
		want   int
		other  bool
	}{{7, nil, 7, false}, {&seven, nil, 7, false}, {nil, failed, 0, false}, {nil, nil, 0, false}, {"7", nil, 0, true}} {
		got, err := AnswerOf[int](c.answer, c.err)
		if got != c.want || c.other == (err == nil) && c.err == nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v, %v: %d, %v", c.answer, c.err, got, err)
		}
	}
	var any7 any = 7
	if got, err := AnswerOf[any](&any7, nil); got != 7 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
