package rescue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

const readLimit = 10 * time.Second

func newSource(read func([]byte, int64) (int, error)) *Source {
	return &Source{path: "/dev/vg1/a", size: 1 << 20, sector: sector, limit: readLimit,
		calls: bounded.New(readLimit, mostHanging), read: read}
}

func TestReadsThatHangAreAbandonedAndTheNextOnesSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var reads atomic.Int32
		s := newSource(func(buffer []byte, _ int64) (int, error) {
			if reads.Add(1) <= 3 {
				<-release
			}
			return len(buffer), nil
		})
		for range 3 {
			begun := time.Now()
			_, ended, err := s.Read(t.Context(), Range{0, sector})
			late := (*bounded.NoAnswerError)(nil)
			if !errors.As(err, &late) || ended || time.Since(begun) != readLimit {
				t.Fatalf("after %s: %v, %v", time.Since(begun), ended, err)
			}
		}
		if data, _, err := s.Read(t.Context(), Range{0, sector}); err != nil || len(data) != sector {
			t.Errorf("the same range, now: %d bytes, %v", len(data), err)
		}
		close(release)
	})
}

func TestASourceThatNeverAnswersEndsTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newSource(func([]byte, int64) (int, error) { <-release; return 0, unix.EIO })
		begun := time.Now()
		for i := range mostHanging {
			if _, ended, err := s.Read(t.Context(), Range{int64(i) * sector, sector}); ended || err == nil {
				t.Fatalf("read %d: %v, %v", i, ended, err)
			}
		}
		_, ended, err := s.Read(t.Context(), Range{0, sector})
		if !errors.Is(err, errStuck) || !ended || time.Since(begun) > (mostHanging+hangLimit+1)*readLimit {
			t.Errorf("after %s: %v, %v", time.Since(begun), ended, err)
		}
		close(release)
	})
}

func TestAReadThatIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	s := newSource(func([]byte, int64) (int, error) { cancel(); <-release; return 0, unix.EIO })
	if _, ended, err := s.Read(ctx, Range{0, sector}); !ended || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", ended, err)
	}
}

func TestWhatARead(t *testing.T) {
	for name, test := range map[string]struct {
		n     int
		err   error
		bytes int
		ended bool
	}{
		"succeeds":               {4096, nil, 4096, false},
		"fails":                  {-1, unix.EIO, 0, false},
		"succeeds in part":       {1024, unix.EIO, 1024, false},
		"ends within a sector":   {700, nil, 512, false},
		"hits the end":           {0, nil, 0, true},
		"hits a removed device":  {-1, unix.ENXIO, 0, true},
		"hits another one, gone": {-1, unix.ENODEV, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(func([]byte, int64) (int, error) { return test.n, test.err })
			data, ended, err := s.Read(t.Context(), Range{0, 4096})
			if len(data) != test.bytes || ended != test.ended || (err == nil) != (test.bytes > 0) {
				t.Errorf("got %d bytes, %v, %v", len(data), ended, err)
			}
		})
	}
}
