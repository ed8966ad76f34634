package copies

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

const streamSize = 8 << 20

// noise is data that cannot be compressed.
func noise(length int, seed uint64) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed)})
	data := make([]byte, length)
	_, _ = source.Read(data)
	return data
}

func textOf(length int) []byte {
	return bytes.Repeat([]byte("what is compressed well "), length/24+1)[:length]
}

// streamOf writes a stream with one call for each record.
func streamOf(t *testing.T, calls ...func(w *streamWriter) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newStreamWriter(&b, streamSize)
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

func putData(offset uint64, data []byte) func(*streamWriter) error {
	return func(w *streamWriter) error { return w.Data(offset, data) }
}

func putZeros(offset, length uint64) func(*streamWriter) error {
	return func(w *streamWriter) error { return w.Zeros(offset, length) }
}

func putEnd(w *streamWriter) error { return w.End() }

// recordsOf returns the records of a stream, and the error after the last one.
func recordsOf(t *testing.T, stream []byte) ([]record, error) {
	t.Helper()
	r, err := newStreamReader(bytes.NewReader(stream), streamSize)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var list []record
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
	random := noise(maxData, 1)
	wire := streamOf(t, putData(0, textOf(maxData)), putData(maxData, random), putZeros(2*maxData, 4*maxData),
		putData(streamSize-3, []byte{1, 2, 3}), putEnd)
	got, err := recordsOf(t, wire)
	if !errors.Is(err, io.EOF) || len(got) != 4 {
		t.Fatalf("%d records, then %v, want 4 and the end", len(got), err)
	}
	if !bytes.Equal(got[0].Data, textOf(maxData)) || !bytes.Equal(got[1].Data, random) ||
		!bytes.Equal(got[3].Data, []byte{1, 2, 3}) {
		t.Error("the data differs")
	}
	if got[2].Data != nil || !got[2].Zeros || got[2].Offset != 2*maxData || got[2].Length != 4*maxData {
		t.Errorf("zeros are %+v", got[2])
	}
	if got[1].Sum != sumOf(random) {
		t.Errorf("sum %08x, want %08x", got[1].Sum, sumOf(random))
	}
	if limit := maxData + maxData/4; len(wire) > limit {
		t.Errorf("the stream has %d bytes, want less than %d: text was not compressed", len(wire), limit)
	}
}

func TestAStreamOfSums(t *testing.T) {
	random := noise(maxData, 1)
	wire := streamOf(t, func(w *streamWriter) error { return w.Sum(4096, random) }, putEnd)
	got, err := recordsOf(t, wire)
	if !errors.Is(err, io.EOF) || len(got) != 1 {
		t.Fatalf("%d records, then %v, want 1 and the end", len(got), err)
	}
	want := record{Offset: 4096, Length: maxData, Sum: sumOf(random)}
	if !reflect.DeepEqual(got[0], want) || len(wire) > 200 {
		t.Errorf("%+v in %d bytes, want %+v", got[0], len(wire), want)
	}
}

func TestAnEmptyStreamHasAnEnd(t *testing.T) {
	got, err := recordsOf(t, streamOf(t, putEnd))
	if len(got) != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d records and %v, want the end only", len(got), err)
	}
}

// TestAStreamThatWasCutOffIsDamaged cuts a stream at each byte.
func TestAStreamThatWasCutOffIsDamaged(t *testing.T) {
	whole := streamOf(t, putData(0, textOf(100)), putZeros(100, 100), putData(4096, noise(50, 2)), putEnd)
	for length := range whole {
		if _, err := recordsOf(t, whole[:length]); !errors.Is(err, errDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v, want errDamaged", length, len(whole), err)
		}
	}
}

// TestAStreamThatWasChangedIsDamaged changes each byte of a stream. Some bits of zstd mean nothing: the data that is
// read is the same without them.
func TestAStreamThatWasChangedIsDamaged(t *testing.T) {
	whole := streamOf(t, putData(0, textOf(100)), putZeros(100, 100), putData(4096, noise(50, 2)), putEnd)
	want, _ := recordsOf(t, whole)
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x40
		got, err := recordsOf(t, changed)
		if errors.Is(err, io.EOF) && reflect.DeepEqual(got, want) {
			continue
		}
		if !errors.Is(err, errDamaged) {
			t.Fatalf("byte %d changed: %v, want errDamaged", at, err)
		}
	}
}

// TestRecordsOfAnotherStream: records that are right by themselves are not, if one is missing or comes twice.
func TestRecordsOfAnotherStream(t *testing.T) {
	first := putData(0, noise(100, 1))
	second := putData(100, noise(100, 2))
	whole := streamOf(t, first, second, putEnd)
	record := headerLength + 100
	start := len(magic)
	for name, changed := range map[string][]byte{
		"one is missing": append(bytes.Clone(whole[:start]), whole[start+record:]...),
		"one comes twice": append(append(bytes.Clone(whole[:start+record]), whole[start:start+record]...),
			whole[start+record:]...),
		"another order": append(append(append(bytes.Clone(whole[:start]), whole[start+record:start+2*record]...),
			whole[start:start+record]...), whole[start+2*record:]...),
	} {
		if _, err := recordsOf(t, changed); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v, want errDamaged", name, err)
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
	for name, first := range map[string]func(w *streamWriter) error{
		"connection":     putData(0, noise(1000, 1)),
		"overlap":        func(w *streamWriter) error { return errors.Join(w.Zeros(0, 10), w.Zeros(5, 10)) },
		"behind the end": putZeros(streamSize, 1),
		"no data":        putData(0, nil),
		"too much data":  putData(0, make([]byte, maxData+1)),
		"no zeros":       putZeros(0, 0),
		"overflow":       putZeros(1<<63, 1<<63),
	} {
		w, err := newStreamWriter(&broken{left: 500}, streamSize)
		if err != nil {
			t.Fatal(err)
		}
		failed := first(w)
		if failed == nil {
			t.Errorf("%s: no error", name)
		}
		for _, call := range []func(*streamWriter) error{putData(4096, []byte{1}), putZeros(8192, 1), putEnd} {
			if err := call(w); err == nil || !strings.Contains(failed.Error(), err.Error()) {
				t.Errorf("%s: a later call returns %v, want %v", name, err, failed)
			}
		}
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	w, err := newStreamWriter(io.Discard, streamSize)
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
	r, err := newStreamReader(&broken{}, streamSize)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, errBroken) || errors.Is(err, errDamaged) {
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
	w, err := newStreamWriter(&b, streamSize)
	if err != nil {
		f.Fatal(err)
	}
	_ = w.Data(0, textOf(1000))
	_ = w.Zeros(4096, 4096)
	_ = w.End()
	f.Add(b.Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r, err := newStreamReader(bytes.NewReader(stream), streamSize)
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
				if !errors.Is(err, errDamaged) {
					t.Fatalf("%v, want errDamaged", err)
				}
				return
			}
			if record.Offset < next || record.Offset+record.Length > streamSize || len(record.Data) > maxData {
				t.Fatalf("record %d+%d after %d", record.Offset, record.Length, next)
			}
			next = record.Offset + record.Length
		}
	})
}
