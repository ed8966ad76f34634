package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// limit sets the limits of both classes in MiB. The namespace "" stands for all others.
func limit(t *testing.T, e *Engine, limits map[string]uint64) {
	t.Helper()
	var list []deviceclass.NamespaceLimit
	for namespace, mebibytes := range limits {
		list = append(list, deviceclass.NamespaceLimit{Namespace: namespace, PerNodeBytes: mebibytes << 20})
	}
	thick, thin := thickClass("thick"), thinClass("thin", 10)
	thick.NamespaceLimits, thin.NamespaceLimits = list, list
	setClasses(t, e, thick, thin)
}

// tenant is a namespace that requests volumes of a class in MiB. Without a name, its volumes have no tag.
type tenant struct {
	engine      *Engine
	name, class string
}

func (n tenant) tags() []string {
	if n.name == "" {
		return nil
	}
	return []string{"lvms.uid=x", "lvms.pvc=" + n.name + "/claim"}
}

func (n tenant) create(t *testing.T, volume string, size int64) error {
	_, err := n.engine.CreateLV(t.Context(), NewVolume{Name: volume, Class: n.class,
		Size: size * mib, Tags: n.tags()})
	return err
}

func (n tenant) copy(t *testing.T, volume, source, access string, size int64) error {
	_, err := n.engine.CreateLVSnapshot(t.Context(), NewSnapshot{Name: volume,
		Class: n.class, Source: source, ReadOnly: access == "ro", Size: size * mib, Tags: n.tags()})
	return err
}

func (n tenant) resize(t *testing.T, volume string, size int64) error {
	_, err := n.engine.ResizeLV(t.Context(), n.class, volume, size*mib)
	return err
}

func TestNamespaceLimits(t *testing.T) {
	for _, class := range []string{"thick", "thin"} {
		e, _ := newEngine(t)
		limit(t, e, map[string]uint64{"shop": 40, "big": 900, "none": 0, "": 16})
		shop, other, third := tenant{e, "shop", class}, tenant{e, "other", class}, tenant{e, "third", class}
		for _, row := range []struct {
			what string
			err  error
			code codes.Code
		}{
			{"within the limit", shop.create(t, "a", 16), codes.OK},
			{"called twice", shop.create(t, "a", 16), codes.OK},
			{"up to the limit", shop.create(t, "b", 24), codes.OK},
			{"over the limit", shop.create(t, "c", 4), codes.ResourceExhausted},
			{"called twice", shop.create(t, "c", 4), codes.ResourceExhausted},
			{"what exists", shop.create(t, "a", 16), codes.OK},
			{"an expansion", shop.resize(t, "a", 20), codes.ResourceExhausted},
			{"an expansion to the present size", shop.resize(t, "a", 16), codes.OK},
			{"another namespace has the limit for all others", other.create(t, "d", 16), codes.OK},
			{"and no more", other.create(t, "e", 4), codes.ResourceExhausted},
			{"each of them for itself", third.create(t, "f", 16), codes.OK},
			{"nothing is allowed", tenant{e, "none", class}.create(t, "g", 4), codes.ResourceExhausted},
			{"no namespace is known", tenant{e, "", class}.create(t, "h", 60), codes.OK},
			{"the start of a name", tenant{e, "sho", class}.create(t, "i", 20), codes.ResourceExhausted},
			{"larger than the limit of the others", tenant{e, "big", class}.create(t, "j", 100), codes.OK},
		} {
			wantCode(t, class+", "+row.what, row.err, row.code)
		}
		// The limits become smaller than what exists, and then larger.
		limit(t, e, map[string]uint64{"shop": 8})
		wantCode(t, "what exists", shop.create(t, "a", 16), codes.OK)
		wantCode(t, "an expansion", shop.resize(t, "a", 20), codes.ResourceExhausted)
		wantCode(t, "a namespace that has no limit now", other.create(t, "e", 40), codes.OK)
		limit(t, e, map[string]uint64{"shop": 44})
		wantCode(t, "an expansion within the larger limit", shop.resize(t, "a", 20), codes.OK)
		err := e.RemoveLV(t.Context(), class, "b")
		must(t, err)
		wantCode(t, "after a removal", shop.create(t, "c", 24), codes.OK)
	}
}

func TestNamespaceLimitsCountEachClassForItself(t *testing.T) {
	e, _ := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 16})
	must(t, tenant{e, "shop", "thick"}.create(t, "a", 16))
	must(t, tenant{e, "shop", "thin"}.create(t, "b", 16))
}

func TestSnapshotsCountForTheirNamespace(t *testing.T) {
	e, fake := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 40})
	shop := tenant{e, "shop", "thin"}
	must(t, shop.create(t, "a", 16))
	for range 2 {
		must(t, shop.copy(t, "frozen", "a", "ro", 0))
	}
	wantCode(t, "a clone over the limit", shop.copy(t, "clone", "a", "rw", 16), codes.ResourceExhausted)
	wantCode(t, "a clone in another namespace", tenant{e, "other", "thin"}.copy(t, "clone", "a", "rw", 16), codes.OK)
	wantCode(t, "an expansion", shop.resize(t, "a", 28), codes.ResourceExhausted)
	// The process was killed before it extended a clone that was created within a larger limit.
	must(t, fake.Apply(t.Context(), lvm.LVCreateSnapshot{VG: "thin", Source: "frozen", Name: "late",
		Tags: shop.tags()}))
	wantCode(t, "the rest of a clone", shop.copy(t, "late", "frozen", "rw", 32), codes.ResourceExhausted)
	limit(t, e, nil)
	wantCode(t, "the rest of a clone, without a limit", shop.copy(t, "late", "frozen", "rw", 32), codes.OK)
}

func TestTheMessageOfANamespaceLimit(t *testing.T) {
	e, _ := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 40})
	shop := tenant{e, "shop", "thin"}
	must(t, shop.create(t, "a", 32))
	err := shop.create(t, "b", 12)
	for _, text := range []string{"device class thin", "namespace shop has 32Mi", "12Mi more", "limit of 40Mi",
		"namespaceLimits", "delete volumes or snapshots"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not contain %q", err, text)
		}
	}
}

// TestNamespaceUsageIsNotKnown: a failed read is not "no volumes".
func TestNamespaceUsageIsNotKnown(t *testing.T) {
	e, fake := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 40})
	fake.Fail("Report", errors.New("input/output error"))
	if err := (tenant{e, "shop", "thin"}).create(t, "a", 4); err == nil {
		t.Error("a volume was created without reading what the namespace has")
	}
	fake.Fail("Report", nil)
	must(t, tenant{e, "shop", "thin"}.create(t, "a", 4))
}

// TestAnOutdatedReportIsReadAgain: another program removed a volume of the namespace.
func TestAnOutdatedReportIsReadAgain(t *testing.T) {
	e, fake := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 16})
	shop := tenant{e, "shop", "thin"}
	must(t, shop.create(t, "a", 16))
	view, err := fake.Report(t.Context())
	must(t, err)
	must(t, fake.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{"a"}}))
	e.lvm = &outdated{Fake: fake, view: view}
	must(t, shop.create(t, "b", 16))
}

func TestVolumesThatComeTogetherStayWithinTheLimit(t *testing.T) {
	e, fake := newEngine(t)
	limit(t, e, map[string]uint64{"shop": 40})
	var calls sync.WaitGroup
	errs := make(chan error, 10)
	for i := range cap(errs) {
		calls.Go(func() { errs <- tenant{e, "shop", "thin"}.create(t, fmt.Sprint("v", i), 8) })
	}
	calls.Wait()
	close(errs)
	created := 0
	for err := range errs {
		if err == nil {
			created++
		} else {
			wantCode(t, "the others", err, codes.ResourceExhausted)
		}
	}
	report, err := fake.Report(t.Context())
	must(t, err)
	if got := len(report.VG("thin").LVs) - 1; created != 5 || got != 5 {
		t.Errorf("%d calls succeeded, %d volumes exist, want 5", created, got)
	}
}
