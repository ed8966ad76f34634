package view

import (
	"math"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func TestACopyRecordIsReadAsItWasWritten(t *testing.T) {
	want := CopyRecord{Source: "move-1-2", Base: "move-1-1", CopiedBytes: 1 << 62, ComparedBytes: 5, SizeBytes: 1 << 63,
		SentBytes: 4, Seconds: 0.25, Finished: true, Error: "a \"quoted\" error"}
	lv := &topolvmv1.LogicalVolume{}
	if err := SetCopied(lv, want); err != nil {
		t.Fatal(err)
	}
	got, err := Copied(lv)
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestWhatACopyHasDone(t *testing.T) {
	for want, record := range map[int64]CopyRecord{0: {}, 5: {CopiedBytes: 3, ComparedBytes: 2, SizeBytes: 9},
		math.MaxInt64 - 1: {CopiedBytes: math.MaxUint64, ComparedBytes: math.MaxUint64}} {
		if got := record.DoneBytes(); got != want {
			t.Errorf("%+v: %d bytes, want %d", record, got, want)
		}
	}
}

func TestATextThatIsNoCopyRecordIsAnError(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"source":5}`, `{"source":"a","copiedBytes":-1}`, "null"} {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{wellknown.CopiedAnnotation: text}}}
		if got, err := Copied(lv); err == nil || got != (CopyRecord{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}
