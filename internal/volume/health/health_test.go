package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

func TestConditionsAreMergedAsTheAPIServerRequires(t *testing.T) {
	got := Merged([]Condition{Degraded("B", "b1"), Inaccessible("B", "c"), Degraded("A", "a"), Degraded("B", "b2")})
	want := []Condition{Inaccessible("B", "c"), Degraded("A", "a"), Degraded("B", "b1; b2")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var many []Condition
	for i := range 20 {
		many = append(many, Degraded(fmt.Sprint(i), strings.Repeat("ä", i*100)))
	}
	got = Merged(many)
	if len(got) != maxConditions {
		t.Errorf("got %d conditions", len(got))
	}
	for _, c := range got {
		if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
			t.Errorf("reason %s has a message of %d bytes: %q", c.Reason, len(c.Message), c.Message)
		}
	}
	if got := Merged(nil); len(got) != 0 {
		t.Errorf("healthy: got %v", got)
	}
}

func TestConditionsForCSI(t *testing.T) {
	got := CSI("v", []Condition{Degraded(DeviceMissing, "a"), Inaccessible(FileSystemUnavailable, "b")})
	list := got.GetHealthStatuses()
	if got.GetVolumeId() != "v" || len(list) != 2 {
		t.Fatalf("got %v", got)
	}
	if list[0].GetStatus() != csi.VolumeHealthErrorType_INACCESSIBLE || list[0].GetReason() != FileSystemUnavailable {
		t.Errorf("got %v", list[0])
	}
	if list[1].GetStatus() != csi.VolumeHealthErrorType_DEGRADED || list[1].GetMessage() != "a" {
		t.Errorf("got %v", list[1])
	}
	if got := CSI("v", nil); got.GetVolumeId() != "v" || len(got.GetHealthStatuses()) != 0 {
		t.Errorf("healthy: got %v", got)
	}
	if Text(nil) != "" || Text([]Condition{Degraded("A", "a"), Degraded("B", "b")}) != "a; b" {
		t.Error("the text is not that of the messages")
	}
}
