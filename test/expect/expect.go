// Package expect compares the parts of a result one by one, so that a test says which of them is wrong.
package expect

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Equal fails the test unless two values are deeply equal. what is the name of the value.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Slice fails the test unless two slices have the same elements. nil is equal to an empty slice.
func Slice[S ~[]E, E comparable](t testing.TB, what string, got, want S) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Contains fails the test unless a text has a part.
func Contains(t testing.TB, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want a text with %q", what, got, part)
	}
}

// NotZero fails the test if a value is the zero value of its type.
func NotZero[T any](t testing.TB, what string, got T) {
	t.Helper()
	if reflect.ValueOf(&got).Elem().IsZero() {
		t.Errorf("%s: got the zero value %v", what, got)
	}
}

// Error fails the test unless an error has a part in its text. If part is empty, there must be no error.
func Error(t testing.TB, what string, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("%s: got %v, want no error", what, err)
	case part != "" && err == nil:
		t.Errorf("%s: got no error, want one with %q", what, part)
	case part != "":
		Contains(t, what, err.Error(), part)
	}
}
