package copystream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

const size = 8 << 20

// random is data that cannot be compressed.
func random(length int, seed uint64) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed)})
	data := make([]byte, length)
	_, _ = source.Read(data)
	return data
}

func text(length int) []byte {
	return bytes.Repeat([]byte("what is compressed well "), length/24+1)[:length]
}

// stream writes a stream with one call for each record.
func stream(t *testing.T, calls ...func(w *Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, size)
	if err != nil {
		t.Fatal(err)
	}
	for i, call := range calls {
		if err := call(w); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func data(offset uint64, data []byte) func(*Writer) error {
	return func(w *Writer) error { return w.Data(offset, data) }
}

func zeros(offset, length uint64) func(*Writer) error {
	return func(w *Writer) error { return w.Zeros(offset, length) }
}

func end(w *Writer) error { return w.End() }

// read returns the records of a stream, and the error after the last one.
func read(t *testing.T, stream []byte) ([]Record, error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(stream), size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var list []Record
	for {
		record, err := r.Next()
		if err != nil {
			return list, err
		}
		record.Data = bytes.Clone(record.Data)
		list = append(list, record)
	}
}

func TestAStreamHasWhatWasWritten(t *testing.T) {
	noise := random(MaxData, 1)
	wire := stream(t, data(0, text(MaxData)), data(MaxData, noise), zeros(2*MaxData, 4*MaxData),
		data(size-3, []byte{1, 2, 3}), end)
	got, err := read(t, wire)
	if !errors.Is(err, io.EOF) || len(got) != 4 {
		t.Fatalf("%d records, then %v, want 4 and the end", len(got), err)
	}
	if !bytes.Equal(got[0].Data, text(MaxData)) || !bytes.Equal(got[1].Data, noise) ||
		!bytes.Equal(got[3].Data, []byte{1, 2, 3}) {
		t.Error("the data differs")
	}
	if got[2].Data != nil || !got[2].Zeros || got[2].Offset != 2*MaxData || got[2].Length != 4*MaxData {
		t.Errorf("zeros are %+v", got[2])
	}
	if got[1].Sum != Sum(noise) {
		t.Errorf("sum %08x, want %08x", got[1].Sum, Sum(noise))
	}
	if limit := MaxData + MaxData/4; len(wire) > limit {
		t.Errorf("the stream has %d bytes, want less than %d: text was not compressed", len(wire), limit)
	}
}

func TestAStreamOfSums(t *testing.T) {
	noise := random(MaxData, 1)
	wire := stream(t, func(w *Writer) error { return w.Sum(4096, noise) }, end)
	got, err := read(t, wire)
	if !errors.Is(err, io.EOF) || len(got) != 1 {
		t.Fatalf("%d records, then %v, want 1 and the end", len(got), err)
	}
	want := Record{Offset: 4096, Length: MaxData, Sum: Sum(noise)}
	if !reflect.DeepEqual(got[0], want) || len(wire) > 200 {
		t.Errorf("%+v in %d bytes, want %+v", got[0], len(wire), want)
	}
}

func TestAnEmptyStreamHasAnEnd(t *testing.T) {
	got, err := read(t, stream(t, end))
	if len(got) != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d records and %v, want the end only", len(got), err)
	}
}

// TestAStreamThatWasCutOffIsDamaged cuts a stream at each byte.
func TestAStreamThatWasCutOffIsDamaged(t *testing.T) {
	whole := stream(t, data(0, text(100)), zeros(100, 100), data(4096, random(50, 2)), end)
	for length := range whole {
		if _, err := read(t, whole[:length]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v, want ErrDamaged", length, len(whole), err)
		}
	}
}

// TestAStreamThatWasChangedIsDamaged changes each byte of a stream. Some bits of zstd mean nothing: the data that is
// read is the same without them.
func TestAStreamThatWasChangedIsDamaged(t *testing.T) {
	whole := stream(t, data(0, text(100)), zeros(100, 100), data(4096, random(50, 2)), end)
	want, _ := read(t, whole)
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x40
		got, err := read(t, changed)
		if errors.Is(err, io.EOF) && reflect.DeepEqual(got, want) {
			continue
		}
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d changed: %v, want ErrDamaged", at, err)
		}
	}
}

// TestRecordsOfAnotherStream: records that are right by themselves are not, if one is missing or comes twice.
func TestRecordsOfAnotherStream(t *testing.T) {
	first := data(0, random(100, 1))
	second := data(100, random(100, 2))
	whole := stream(t, first, second, end)
	record := headerLength + 100
	start := len(magic)
	for name, changed := range map[string][]byte{
		"one is missing": append(bytes.Clone(whole[:start]), whole[start+record:]...),
		"one comes twice": append(append(bytes.Clone(whole[:start+record]), whole[start:start+record]...),
			whole[start+record:]...),
		"another order": append(append(append(bytes.Clone(whole[:start]), whole[start+record:start+2*record]...),
			whole[start:start+record]...), whole[start+2*record:]...),
	} {
		if _, err := read(t, changed); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
	}
}

// broken fails after a number of bytes.
type broken struct{ left int }

var errBroken = errors.New("connection reset")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func (b *broken) Read(p []byte) (int, error) { return 0, errBroken }

// TestAWriterEndsWithItsFirstError: nothing must follow a record that was not written as a whole.
func TestAWriterEndsWithItsFirstError(t *testing.T) {
	for name, first := range map[string]func(w *Writer) error{
		"connection":     data(0, random(1000, 1)),
		"overlap":        func(w *Writer) error { return errors.Join(w.Zeros(0, 10), w.Zeros(5, 10)) },
		"behind the end": zeros(size, 1),
		"no data":        data(0, nil),
		"too much data":  data(0, make([]byte, MaxData+1)),
		"no zeros":       zeros(0, 0),
		"overflow":       zeros(1<<63, 1<<63),
	} {
		w, err := NewWriter(&broken{left: 500}, size)
		if err != nil {
			t.Fatal(err)
		}
		failed := first(w)
		if failed == nil {
			t.Errorf("%s: no error", name)
		}
		for _, call := range []func(*Writer) error{data(4096, []byte{1}), zeros(8192, 1), end} {
			if err := call(w); err == nil || !strings.Contains(failed.Error(), err.Error()) {
				t.Errorf("%s: a later call returns %v, want %v", name, err, failed)
			}
		}
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	w, err := NewWriter(io.Discard, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if err := w.End(); !errors.Is(err, errEnded) {
		t.Errorf("second end: %v", err)
	}
	if err := w.Data(0, []byte{1}); !errors.Is(err, errEnded) {
		t.Errorf("data after the end: %v", err)
	}
}

func TestAFailedReadIsNotDamage(t *testing.T) {
	r, err := NewReader(&broken{}, size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, errBroken) || errors.Is(err, ErrDamaged) {
		t.Fatalf("%v, want %v", err, errBroken)
	}
}

func TestCompressionIsAttemptedLessOftenIfItDoesNotPay(t *testing.T) {
	var e effort
	tried := 0
	for range 1000 {
		if e.tries() {
			tried++
			e.paid(100, 90)
		}
	}
	if tried > 25 {
		t.Errorf("%d attempts for 1000 records that cannot be compressed", tried)
	}
	for !e.tries() {
	}
	if !e.paid(100, 87) || !e.tries() {
		t.Error("after a success, the next record must be compressed too")
	}
}

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w, err := NewWriter(&b, size)
	if err != nil {
		f.Fatal(err)
	}
	_ = w.Data(0, text(1000))
	_ = w.Zeros(4096, 4096)
	_ = w.End()
	f.Add(b.Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r, err := NewReader(bytes.NewReader(stream), size)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		next := uint64(0)
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("%v, want ErrDamaged", err)
				}
				return
			}
			if record.Offset < next || record.Offset+record.Length > size || len(record.Data) > MaxData {
				t.Fatalf("record %d+%d after %d", record.Offset, record.Length, next)
			}
			next = record.Offset + record.Length
		}
	})
}
