package engine

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestUpkeep(t *testing.T) {
	e, _ := newEngine(t)
	ctx := t.Context()
	if _, err := e.CreateLV(ctx, NewVolume{Name: "a", Class: "thin",
		Size: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.TagLV(ctx, "thin", "a", []string{"lvms.formatted=xfs"}, []string{"gone"}); err != nil {
			t.Fatal(err)
		}
		if err := e.ActivateLV(ctx, "thin", "a"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := e.ListLVs(ctx, "thin")
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Tags, []string{"lvms.formatted=xfs"}) {
		t.Errorf("got %+v, %v", list, err)
	}
	if wrong, err := e.Problems(ctx, "thin", "a"); wrong != nil || err != nil {
		t.Errorf("got %v, %v", wrong, err)
	}
	_, conditionErr := e.Problems(ctx, "thin", "b")
	_, classErr := e.Problems(ctx, "none", "a")
	for what, err := range map[string]error{
		"tag": e.TagLV(ctx, "thin", "b", []string{"x"}, nil), "activate": e.ActivateLV(ctx, "thin", "b"),
		"condition": conditionErr, "class": classErr,
	} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s of what is not there: %v", what, err)
		}
	}
	if err := e.TagLV(ctx, "thin", "-x", nil, nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a name that would be an option: %v", err)
	}
}
