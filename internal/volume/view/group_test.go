package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
)

func grouped(key, text string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "s1",
		Annotations: map[string]string{key: text}}}
}

func TestARequestIsReadAsItWasWritten(t *testing.T) {
	want := &GroupRequest{Request: groupprotocol.Request{Attempt: 2, Phase: groupprotocol.Suspend,
		Limit: 5 * time.Second}, Members: []string{"s1", "s2"}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := GroupRequestOf(grouped(wellknown.GroupRequestAnnotation, string(text)))
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := GroupRequestOf(&topolvmv1.LogicalVolume{}); got != nil || err != nil {
		t.Errorf("no annotation: got %+v, %v", got, err)
	}
	many, err := json.Marshal(GroupRequest{Members: slices.Repeat([]string{"s1"}, groupprotocol.MaxVolumes+1)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"members":["other"]}`, "{}", string(many)} {
		if got, err := GroupRequestOf(grouped(wellknown.GroupRequestAnnotation, text)); err == nil {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

func TestAStateIsReadAsItWasWritten(t *testing.T) {
	want := groupprotocol.State{Attempt: 1, Phase: groupprotocol.Failed, Reason: "no space", Suspended: time.Second}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := GroupStateOf(grouped(wellknown.GroupStateAnnotation, string(text))); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := GroupStateOf(&topolvmv1.LogicalVolume{}); err != nil || got != (groupprotocol.State{}) {
		t.Errorf("no annotation: got %+v, %v", got, err)
	}
	for i, text := range []string{"", "{", "[]"} {
		if _, err := GroupStateOf(grouped(wellknown.GroupStateAnnotation, text)); err == nil {
			t.Error(fmt.Sprint(i), ": no error")
		}
	}
}

func TestGroupPending(t *testing.T) {
	if GroupPending(grouped("x", "y")) != "" || GroupPending(grouped(wellknown.GroupPendingAnnotation, "g")) != "g" {
		t.Error("the annotation decides")
	}
}
