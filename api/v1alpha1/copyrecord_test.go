package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestACopyRecordIsReadAsItWasWritten(t *testing.T) {
	want := CopyRecord{Source: "move-1-2", Base: "move-1-1", CopiedBytes: 1 << 62, ComparedBytes: 5, SizeBytes: 1 << 63,
		SentBytes: 4, Seconds: 0.25, Finished: true, Error: "a \"quoted\" error"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseCopyRecord(string(text))
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestATextThatIsNoCopyRecordIsAnError(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"source":5}`, `{"source":"a","copiedBytes":-1}`, "null"} {
		if got, err := ParseCopyRecord(text); err == nil || got != (CopyRecord{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}
