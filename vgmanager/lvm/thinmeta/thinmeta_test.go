package thinmeta

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// node is a node whose programs print and return this.
type node struct {
	check, plainDump, dumpWithOptions error
	// versionError is the error of `thin_dump --version`, which prints version, or 0.9.0.
	versionError error
	version      string
	out          string
	calls        []string
}

func (n *node) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	n.calls = append(n.calls, name+" "+strings.Join(args, " "))
	if slices.Equal(args, []string{"--version"}) {
		return []byte(cmp.Or(n.version, "0.9.0\n")), n.versionError
	}
	return nil, n.check
}

func (n *node) Stream(_ context.Context, out io.Writer, name string, args ...string) error {
	n.calls = append(n.calls, name+" "+strings.Join(args, " "))
	err := n.plainDump
	if slices.Contains(args, "--transaction-id") {
		err = n.dumpWithOptions
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, n.out)
	return err
}

var pool = Pool{Device: "/dev/zero", TransactionID: 3, ChunkSectors: 128, Chunks: 1920}

// dumped is the output of thin_dump 0.9.0 --repair for metadata of which one leaf was overwritten.
const dumped = `<superblock uuid="" time="1" transaction="3" flags="1" version="2" data_block_size="128" nr_data_blocks="1920">
  <device dev_id="1" mapped_blocks="512" transaction="0" creation_time="0" snap_time="1">
    <single_mapping origin_block="0" data_block="1024" time="1"/>
    <range_mapping origin_begin="2" data_begin="320" length="263" time="0"/>
  </device>
  <device dev_id="2" mapped_blocks="0" transaction="1" creation_time="0" snap_time="0">
  </device>
</superblock>
`

func exit(code int, stderr string) error {
	return &host.Error{Command: "thin_check", ExitCode: code, Stderr: stderr, Err: errors.New("exit status")}
}

func TestInspect(t *testing.T) {
	read := map[uint64]Device{1: {Recorded: 512, Found: 264}, 2: {}}
	for name, test := range map[string]struct {
		node node
		want *Metadata
		err  string
	}{
		"valid": {node: node{out: dumped},
			want: &Metadata{Intact: true, NeedsCheck: true, TransactionID: 3, Chunks: 1920, Devices: read}},
		"damaged": {node: node{check: exit(1, "bad checksum in metadata block"), out: dumped},
			want: &Metadata{Problem: "bad checksum in metadata block", NeedsCheck: true, TransactionID: 3,
				Chunks: 1920, Devices: read}},
		"damaged, version 1.1": {node: node{check: exit(64, "node error: checksum error"), out: dumped},
			want: &Metadata{Problem: "node error: checksum error", NeedsCheck: true, TransactionID: 3, Chunks: 1920,
				Devices: read}},
		"not executable": {node: node{check: exit(126, "permission denied")}, err: "check the metadata"},
		"without a superblock": {
			node: node{check: exit(1, "bad superblock"), plainDump: exit(1, "no superblock"), out: dumped},
			want: &Metadata{Problem: "bad superblock", SuperblockLost: true, NeedsCheck: true, TransactionID: 3, Chunks: 1920,
				Devices: read}},
		"nothing can be read": {
			node: node{check: exit(1, "bad"), plainDump: exit(1, "no"), dumpWithOptions: exit(1, "no root")},
			want: &Metadata{Problem: "bad", SuperblockLost: true, Salvaged: true, TransactionID: 3, Chunks: 1920,
				Devices:     map[uint64]Device{},
				RepairError: exit(1, "no root").Error()}},
		"valid metadata that cannot be dumped": {node: node{plainDump: exit(1, "input/output error")},
			err: "input/output error"},
		"not installed":   {node: node{check: exit(127, "nsenter: failed to execute")}, err: ErrNotInstalled.Error()},
		"check was ended": {node: node{check: exit(143, "")}, err: "check the metadata"},
		"no output":       {node: node{}, err: "no superblock"},
		"cut output":      {node: node{out: dumped[:200]}, err: "output of thin_dump"},
		"shared mappings, version 1.1": {node: node{out: `<superblock transaction="3" nr_data_blocks="1920">
  <def name="1"><range_mapping length="130"/></def>
  <device dev_id="1" mapped_blocks="131"><ref name="1"/><single_mapping/></device>
  <device dev_id="2" mapped_blocks="130"><ref name="1"/></device></superblock>`},
			want: &Metadata{Intact: true, TransactionID: 3, Chunks: 1920,
				Devices: map[uint64]Device{1: {131, 131}, 2: {130, 130}}}},
		"an unknown name": {node: node{out: `<superblock transaction="3"><ref name="1"/></superblock>`},
			err: `unknown name "1"`},
		"no number": {node: node{out: strings.Replace(dumped, `dev_id="1"`, `dev_id="x"`, 1)},
			err: `dev_id of element device is "x"`},
		"no attribute": {node: node{out: strings.Replace(dumped, `length="263" `, "", 1)},
			err: "element range_mapping has no length"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Inspect(t.Context(), &test.node, pool)
			if (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got the error %v, want %q", err, test.err)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRepairOptionsAreOnlyForALostSuperblock: with these options thin_repair 0.9.0 discards valid metadata that has
// another transaction ID.
func TestRepairOptionsAreOnlyForALostSuperblock(t *testing.T) {
	n := &node{check: exit(1, "bad"), out: dumped}
	if _, err := Inspect(t.Context(), n, pool); err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/sbin/thin_check " + pool.Device, "/usr/sbin/thin_dump --repair " + pool.Device}
	if diff := gocmp.Diff(want, n.calls); diff != "" {
		t.Error(diff)
	}
	n = &node{check: exit(1, "bad"), plainDump: exit(1, "bad"), out: dumped}
	if _, err := Inspect(t.Context(), n, pool); err != nil {
		t.Fatal(err)
	}
	want = append(want, "/usr/sbin/thin_dump --repair --transaction-id 3 --data-block-size 128 --nr-data-blocks 1920 "+
		pool.Device)
	if diff := gocmp.Diff(want, n.calls); diff != "" {
		t.Error(diff)
	}
}

func TestInspectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := &node{check: context.Canceled}
	if m, err := Inspect(ctx, n, pool); err == nil || m != nil {
		t.Errorf("got %v, %v", m, err)
	}
}

// FuzzDump: no output of thin_dump may end the agent.
func FuzzDump(f *testing.F) {
	f.Add(dumped)
	f.Add("<superblock/>")
	f.Fuzz(func(t *testing.T, text string) {
		c := newContents()
		if err := c.decode(strings.NewReader(text)); err == nil && !strings.Contains(text, "superblock") {
			t.Errorf("%q has no superblock", text)
		}
	})
}

func TestIsBlank(t *testing.T) {
	block := make([]byte, 2*blockSize)
	used := append(make([]byte, blockSize-1), 1)
	dir := t.TempDir()
	for name, test := range map[string]struct {
		content []byte
		blank   bool
		err     string
	}{
		"zeros":        {content: block, blank: true},
		"a superblock": {content: used},
		"too short":    {content: block[:blockSize-1], err: "unexpected EOF"},
	} {
		device := filepath.Join(dir, name)
		if err := os.WriteFile(device, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			blank, err := IsBlank(t.Context(), device)
			expect.Equal(t, name+": blank", blank, test.blank)
			expect.Equal(t, name+": err == nil", err == nil, test.err == "")
			if err != nil && !(strings.Contains(err.Error(), test.err) && strings.Contains(err.Error(), device)) {
				t.Errorf("%s: got %t, %v", name, blank, err)
			}
		}
	}
	if _, err := IsBlank(t.Context(), filepath.Join(dir, "nosuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
}
