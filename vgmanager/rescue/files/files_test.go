package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// image is a file system in testdata, and the paths that its own program reports for each block.
type image struct {
	content []byte
	block   int64
	owners  map[int64][]string
}

func load(t testing.TB, kind string, block int64) *image {
	t.Helper()
	f, err := os.Open("testdata/" + kind + ".img.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	i := &image{block: block, owners: map[int64][]string{}}
	if i.content, err = io.ReadAll(unpacked); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("testdata/" + kind + ".blocks")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		path, blocks, _ := strings.Cut(line, ": ")
		for _, b := range strings.Fields(blocks) {
			n, err := strconv.ParseInt(b, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			i.owners[n] = append(i.owners[n], path)
		}
	}
	return i
}

// find returns the report for a copy in which ranges are lost, and are zeros.
func (i *image) find(t testing.TB, lost ...Span) (*Report, error) {
	t.Helper()
	return Find(context.Background(), zeroed{i.content, lost}, int64(len(i.content)), lost)
}

// zeroed is content whose ranges of zeros are not copied.
type zeroed struct {
	content []byte
	zeros   []Span
}

func (z zeroed) ReadAt(p []byte, at int64) (int, error) {
	n, err := bytes.NewReader(z.content).ReadAt(p, at)
	for _, s := range z.zeros {
		if start, end := max(s.Start, at), min(s.End, at+int64(n)); start < end {
			clear(p[start-at : end-at])
		}
	}
	return n, err
}

func paths(r *Report) []string {
	var list []string
	for _, f := range r.Files {
		list = append(list, f.Path)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var folders = []string{"/", "/lost+found", "/many", "/sub", "/sub/deep"}

var images = map[string]int64{"ext4": 1024, "ext3": 1024, "xfs": 4096}

func TestALostBlockNamesTheFilesThatTheFileSystemsOwnProgramNames(t *testing.T) {
	for kind, block := range images {
		t.Run(kind, func(t *testing.T) {
			i := load(t, kind, block)
			if len(i.owners) < 200 {
				t.Fatalf("only %d blocks have an owner", len(i.owners))
			}
			for b, want := range i.owners {
				r, err := i.find(t, Span{b * block, (b + 1) * block})
				if err != nil {
					t.Fatalf("block %d: %v", b, err)
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, paths(r)); diff != "" {
					t.Errorf("block %d (-want +got):\n%s", b, diff)
				}
				if (len(r.Incomplete) > 0) != slices.Contains(folders, want[0]) {
					t.Errorf("block %d of %v: incomplete: %q", b, want, r.Incomplete)
				}
			}
		})
	}
}

func TestALostBlockWithoutAnOwnerNamesNoFile(t *testing.T) {
	for kind, block := range images {
		t.Run(kind, func(t *testing.T) {
			i := load(t, kind, block)
			checked := 0
			for b := int64(len(i.content))/block - 1; checked < 50; b -= 7 {
				if i.owners[b] != nil {
					continue
				}
				checked++
				r, err := i.find(t, Span{b * block, (b + 1) * block})
				if err != nil || len(r.Files) > 0 || len(r.Incomplete) > 0 {
					t.Errorf("block %d: %+v, %v", b, r, err)
				}
			}
		})
	}
}

func TestAWholeFileAndAllFiles(t *testing.T) {
	for kind, block := range images {
		t.Run(kind, func(t *testing.T) {
			i := load(t, kind, block)
			var lost []Span
			all := map[string]bool{}
			for b := range int64(len(i.content)) / block {
				if owners := i.owners[b]; len(owners) > 0 && !slices.Contains(folders, owners[0]) {
					lost = append(lost, Span{b * block, (b + 1) * block})
					for _, o := range owners {
						all[o] = true
					}
				}
			}
			r, err := i.find(t, lost...)
			if err != nil || r.Count < 200 {
				t.Fatalf("%+v, %v", r, err)
			}
			for path := range all {
				if !slices.Contains(paths(r), path) {
					t.Errorf("%s is missing", path)
				}
			}
			for _, f := range r.Files {
				if f.Path == "/big.bin" && f.Lost != 200000 && !slices.Contains(f.What, BlockMap) {
					t.Errorf("got %d lost bytes of /big.bin, want its size", f.Lost)
				}
			}
		})
	}
}

// TestALostInode loses the inode of a file, whose name and blocks are there.
func TestALostInode(t *testing.T) {
	for kind, block := range images {
		t.Run(kind, func(t *testing.T) {
			i := load(t, kind, block)
			f := &finder{source: bytes.NewReader(i.content), size: int64(len(i.content)), metadata: map[string]int64{},
				limited: map[string]bool{}}
			v, err := f.detect()
			if err != nil {
				t.Fatal(err)
			}
			number := uint64(0)
			root, err := v.inode(v.root())
			if err == nil {
				err = v.entries(root, func(e entry) {
					if e.name == "a.txt" {
						number = e.number
					}
				})
			}
			if err != nil || number == 0 {
				t.Fatalf("inode %d of a.txt: %v", number, err)
			}
			at := int64(0)
			switch v := v.(type) {
			case *ext:
				at = v.where(number)
			case *xfs:
				at = v.where(number)
			}
			r, err := i.find(t, Span{at, at + 128})
			if err != nil || len(r.Incomplete) == 0 || !slices.Contains(paths(r), "/a.txt") ||
				!slices.Equal(r.Files[0].What, []string{Inode}) {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestWithoutASuperblockNothingIsKnown(t *testing.T) {
	for kind, block := range images {
		t.Run(kind, func(t *testing.T) {
			_, err := load(t, kind, block).find(t, Span{0, 4096})
			if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "superblock") {
				t.Errorf("got %v", err)
			}
		})
	}
	blank := make([]byte, 1<<20)
	if r, err := Find(t.Context(), bytes.NewReader(blank), 1<<20, []Span{{8192, 16384}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a blank volume: %+v, %v", r, err)
	}
	if r, err := Find(t.Context(), bytes.NewReader(blank[:100]), 100, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a tiny volume: %+v, %v", r, err)
	}
}

func TestTheTimeLimitIsReported(t *testing.T) {
	for kind, block := range images {
		i := load(t, kind, block)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Find(ctx, bytes.NewReader(i.content), int64(len(i.content)), nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

func TestACopyThatCannotBeReadIsNotAnEmptyOne(t *testing.T) {
	for kind, block := range images {
		i := load(t, kind, block)
		for _, n := range []int{600, 2000, 100_000} {
			r, err := Find(t.Context(), bytes.NewReader(i.content[:n]), int64(len(i.content)), nil)
			if err == nil && len(r.Incomplete) == 0 {
				t.Errorf("%s, cut at %d: %+v", kind, n, r)
			}
		}
	}
}

func TestOverlap(t *testing.T) {
	s := spans{{10, 20}, {30, 40}}
	for _, test := range []struct{ from, to, want int64 }{
		{0, 10, 0}, {0, 11, 1}, {10, 20, 10}, {19, 31, 2}, {0, 100, 20}, {20, 30, 0}, {39, 50, 1},
		{40, 50, 0}, {15, 15, 0},
	} {
		if got := s.overlap(test.from, test.to); got != test.want {
			t.Errorf("%d to %d: got %d, want %d", test.from, test.to, got, test.want)
		}
	}
}

// FuzzFind damages a file system: Find must end without a panic.
func FuzzFind(f *testing.F) {
	all := []*image{load(f, "ext4", 1024), load(f, "ext3", 1024), load(f, "xfs", 4096)}
	f.Add(uint8(0), uint32(1024), []byte{1, 2, 3}, uint32(5000))
	f.Add(uint8(2), uint32(0), []byte("XFSB"), uint32(70000))
	f.Fuzz(func(_ *testing.T, which uint8, at uint32, patch []byte, lost uint32) {
		i := all[int(which)%len(all)]
		source := &patched{i.content, int64(at) % int64(len(i.content)), patch}
		start := int64(lost) % int64(len(i.content)-4096)
		_, _ = Find(context.Background(), source, int64(len(i.content)), []Span{{start, start + 4096}})
	})
}

// patched is an image with a patch.
type patched struct {
	content []byte
	at      int64
	patch   []byte
}

func (p *patched) ReadAt(b []byte, at int64) (int, error) {
	n, err := bytes.NewReader(p.content).ReadAt(b, at)
	for i, v := range p.patch {
		if to := p.at + int64(i) - at; to >= 0 && to < int64(n) {
			b[to] = v
		}
	}
	return n, err
}
