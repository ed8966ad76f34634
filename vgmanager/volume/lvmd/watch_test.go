package lvmd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

func free(r *proto.WatchResponse) map[string]uint64 {
	m := map[string]uint64{}
	for _, item := range r.GetItems() {
		m[item.DeviceClass] = item.FreeBytes
		if item.ThinPool != nil {
			m[item.DeviceClass] = item.ThinPool.OverprovisionBytes
		}
	}
	return m
}

func receive(t *testing.T, w *watcher) *proto.WatchResponse {
	t.Helper()
	response, err := w.next()
	must(t, err)
	return response
}

func TestWatchTellsEveryWatcherThePresentStateAndEachChange(t *testing.T) {
	e, _ := newEngine(t)
	first := newWatcher(t.Context(), e)
	second := newWatcher(t.Context(), e)
	for _, w := range []*watcher{first, second} {
		want := map[string]uint64{"thick": uint64(gib + 4*mib), "thin": uint64(10 * 504 * mib)}
		response := receive(t, w)
		if diff := cmp.Diff(want, free(response)); diff != "" {
			t.Error(diff)
		}
		if response.FreeBytes != want["thin"] {
			t.Errorf("the default class has %d", response.FreeBytes)
		}
		thin := response.Items[1]
		if thin.ThinPool.SizeBytes != uint64(504*mib) || thin.ThinPool.MetadataPercent != 10 ||
			thin.SizeBytes != uint64(gib+4*mib) {
			t.Errorf("got %v", thin)
		}
	}
	// Nothing receives meanwhile, and nothing is blocked.
	for _, name := range []string{"a", "b", "c"} {
		_, err := e.CreateLV(t.Context(), engine.NewVolume{Name: name, Class: "thick", Size: 4 * mib})
		must(t, err)
	}
	for _, w := range []*watcher{first, second} {
		if got := free(receive(t, w))["thick"]; got != uint64(gib-8*mib) {
			t.Errorf("after three volumes in one notice: %d", got)
		}
	}
}

func TestWatchTellsOfClassesThatCameAndWent(t *testing.T) {
	e, _ := newEngine(t)
	w := newWatcher(t.Context(), e)
	receive(t, w)
	must(t, e.Withdraw("thick"))
	if got := free(receive(t, w)); got["thick"] != 0 || len(got) != 1 {
		t.Errorf("a class that is gone should not be told of: %v", got)
	}
	must(t, e.Publish(thickClass("thick")))
	if got := free(receive(t, w)); got["thick"] == 0 {
		t.Errorf("a class that came back has no space: %v", got)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	e, _ := newEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatcher(ctx, e)
	receive(t, w)
	ended := make(chan error)
	go func() {
		_, err := w.next()
		ended <- err
	}()
	cancel()
	wantCode(t, "a canceled watch", <-ended, codes.Canceled)
}

func TestWatchOutlivesAReadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEngine(t)
		w := newWatcher(t.Context(), e)
		fake.Fail("Report", errors.New("exit status 5"))
		go func() {
			time.Sleep(retryWatch / 2)
			fake.Fail("Report", nil)
		}()
		begun := time.Now()
		if got := free(receive(t, w)); got["thick"] == 0 {
			t.Errorf("got %v", got)
		}
		if time.Since(begun) != retryWatch {
			t.Errorf("read again after %s", time.Since(begun))
		}
	})
}

func TestStartRefreshesOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEngine(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = e.Start(ctx) }()
		w := newWatcher(ctx, e)
		receive(t, w)
		percent := 50.0
		fake.Edit("thin", "pool", func(lv *lvm.LV) { lv.DataPercent = &percent })
		begun := time.Now()
		response := receive(t, w)
		if time.Since(begun) != time.Minute || response.Items[1].ThinPool.DataPercent != 50 {
			t.Errorf("after %s: %v", time.Since(begun), response)
		}
	})
}
