package legacydriver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// id is the ID of the volume.
const id = "8a6e"

// bench is a Driver of node1 with the LogicalVolume pv, whose volume ID is id.
type bench struct {
	*testing.T
	driver *Driver
	now    time.Time
	// serving is whether the service runs. refused ends it with an error.
	serving chan bool
	refused chan error
	// fail is the error of each request to the API server.
	fail error
}

func newBench(t *testing.T, annotations map[string]string) *bench {
	t.Helper()
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: annotations},
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "node1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}}
	b := &bench{T: t, now: time.Unix(1000, 0), serving: make(chan bool, 10), refused: make(chan error)}
	api := memory.Builder().WithObjects(lv).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			return errors.Join(b.fail, c.List(ctx, l, o...))
		},
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, l client.Object,
			o ...client.GetOption) error {
			return errors.Join(b.fail, c.Get(ctx, k, l, o...))
		}}).Build()
	b.driver = New(Options{Node: "node1", Client: api, Live: api,
		OtherSocket: filepath.Join(t.TempDir(), "other.sock"), Serve: func(ctx context.Context) error {
			b.serving <- true
			select {
			case <-ctx.Done():
				b.serving <- false
				return nil
			case err := <-b.refused:
				return err
			}
		}})
	b.driver.now = func() time.Time { return b.now }
	return b
}

func (b *bench) annotate(key, value string) {
	b.Helper()
	lv := b.object()
	if value == "" {
		delete(lv.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, key, value)
	}
	if err := b.driver.Client.Update(b.Context(), lv); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) object() *topolvmv1.LogicalVolume {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := b.driver.Client.Get(b.Context(), client.ObjectKey{Name: "pv"}, lv); err != nil {
		b.Fatal(err)
	}
	return lv
}

func (b *bench) staged() string {
	return b.object().Annotations[wellknown.EarlierStagedAnnotation]
}

// wantServing checks after a pass whether the service runs.
func (b *bench) wantServing(when string, want bool) {
	b.Helper()
	before := b.driver.cancel != nil
	b.driver.check(b.Context())
	if before != want && <-b.serving != want || (b.driver.cancel != nil) != want {
		b.Errorf("%s: serving is %v, want %v", when, !want, want)
	}
}

var served = map[string]string{wellknown.EarlierDriverAnnotation: wellknown.EarlierDriverName}

func TestTheDriverIsServedWhileAVolumeNeedsIt(t *testing.T) {
	b := newBench(t, nil)
	b.wantServing("without volumes", false)
	b.annotate(wellknown.EarlierDriverAnnotation, wellknown.EarlierDriverName)
	b.wantServing("with a volume", true)
	b.wantServing("with a volume, again", true)
	b.fail = errors.New("no answer")
	b.wantServing("when LogicalVolumes cannot be listed", true)
	b.fail = nil
	staging := t.TempDir()
	b.annotate(wellknown.EarlierStagedAnnotation, staging)
	b.annotate(wellknown.EarlierDriverAnnotation, "")
	b.wantServing("while a volume is staged", true)
	b.annotate(wellknown.EarlierStagedAnnotation, "")
	b.wantServing("without volumes", false)
	b.wantServing("without volumes, again", false)
}

func TestVolumesOfOtherNodesDoNotNeedTheDriver(t *testing.T) {
	b := newBench(t, served)
	b.driver.Node = "node2"
	b.wantServing("another node", false)
}

// TestTheDriverIsNotServedBesideTopoLVM: a socket that nobody serves does not count.
func TestTheDriverIsNotServedBesideTopoLVM(t *testing.T) {
	b := newBench(t, served)
	other, err := net.Listen("unix", b.driver.OtherSocket)
	if err != nil {
		t.Fatal(err)
	}
	b.wantServing("while TopoLVM answers", false)
	if !strings.Contains(b.driver.told, "uninstall TopoLVM") {
		t.Errorf("told %q", b.driver.told)
	}
	other.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = other.Close()
	if _, err := os.Lstat(b.driver.OtherSocket); err != nil {
		t.Fatal(err)
	}
	b.wantServing("after TopoLVM ended", true)
	_ = os.Remove(b.driver.OtherSocket)
	if other, err = net.Listen("unix", b.driver.OtherSocket); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	b.wantServing("when TopoLVM answers again", false)
	// If it is not known whether TopoLVM answers, nothing starts.
	b.driver.OtherSocket = filepath.Join(t.TempDir(), strings.Repeat("x", 200))
	b.wantServing("when it is not known whether TopoLVM answers", false)
}

func TestARefusedDriverIsServedAgainLater(t *testing.T) {
	b := newBench(t, served)
	b.wantServing("first", true)
	for _, delay := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		b.refused <- errors.New("the kubelet refused it")
		b.driver.hasEnded(t.Context(), <-b.driver.ended)
		b.now = b.now.Add(delay - time.Second)
		b.wantServing("too early", false)
		b.now = b.now.Add(time.Second)
		b.wantServing("again", true)
	}
}

func TestTheDriverEndsWithItsContext(t *testing.T) {
	b := newBench(t, served)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.driver.Start(ctx) }()
	if !<-b.serving {
		t.Error("it does not serve")
	}
	cancel()
	if err := <-ended; err != nil || <-b.serving {
		t.Errorf("got %v", err)
	}
}

func TestAStagedVolumeIsRecorded(t *testing.T) {
	b := newBench(t, served)
	staging := filepath.Join(t.TempDir(), "globalmount")
	for range 2 {
		if err := b.driver.BeforeStaging(t.Context(), id, staging); err != nil || b.staged() != staging {
			t.Errorf("got %q, %v", b.staged(), err)
		}
	}
	b.driver.check(t.Context())
	if b.staged() != staging {
		t.Error("the record of a staged volume was removed")
	}
	if err := b.driver.Unstaged(t.Context(), id, "/another"); err != nil || b.staged() != staging {
		t.Errorf("got %q, %v", b.staged(), err)
	}
	for range 2 {
		if err := b.driver.Unstaged(t.Context(), id, staging); err != nil || b.staged() != "" {
			t.Errorf("got %q, %v", b.staged(), err)
		}
	}
	if err := b.driver.Unstaged(t.Context(), "unknown", staging); err != nil {
		t.Errorf("a volume that does not exist: %v", err)
	}
	b.driver.stop(t.Context())
}

// TestARecordWithoutStagingDirectoryIsRemoved: the kubelet does not unstage a volume if staging has failed.
func TestARecordWithoutStagingDirectoryIsRemoved(t *testing.T) {
	b := newBench(t, served)
	b.annotate(wellknown.EarlierStagedAnnotation, filepath.Join(t.TempDir(), "gone"))
	b.driver.check(t.Context())
	if b.staged() != "" {
		t.Errorf("got %q", b.staged())
	}
	b.driver.stop(t.Context())
}

func TestStagingIsRefused(t *testing.T) {
	annotate := func(key, value string) func(*bench) {
		return func(b *bench) { b.annotate(key, value) }
	}
	for name, test := range map[string]struct {
		volume string
		do     func(*bench)
		code   codes.Code
	}{
		"unknown volume":     {"other", func(*bench) {}, codes.NotFound},
		"migrated volume":    {id, annotate(wellknown.EarlierDriverAnnotation, ""), codes.NotFound},
		"a migration begins": {id, annotate(wellknown.MovedVolumeAnnotation, "{}"), codes.Unavailable},
		"the read failed":    {id, func(b *bench) { b.fail = errors.New("no answer") }, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, served)
			test.do(b)
			staging := filepath.Join(t.TempDir(), "globalmount")
			err := b.driver.BeforeStaging(t.Context(), test.volume, staging)
			b.fail = nil
			if status.Code(err) != test.code || b.staged() != "" {
				t.Errorf("got %v, staged at %q", err, b.staged())
			}
			if _, err := os.Lstat(staging); err == nil {
				t.Error("a directory was created")
			}
		})
	}
}
