package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// programs answers cryptsetup with an exit code and output. The tests of the node service on a lab node run the real
// one.
type programs struct {
	code   int
	out    string
	inputs []string
	args   []string
	all    string // all commands
}

func (p *programs) RunWithInput(ctx context.Context, inputs [][]byte, accepted func(int) bool, name string,
	args ...string) ([]byte, int, error) {
	if _, limited := ctx.Deadline(); !limited {
		return nil, -1, errors.New("no time limit")
	}
	p.inputs = nil
	for _, input := range inputs {
		p.inputs = append(p.inputs, string(input))
	}
	p.args = append([]string{name}, args...)
	p.all += strings.Join(p.args, " ") + "; "
	if p.code != 0 && !accepted(p.code) {
		return nil, p.code, &host.Error{Command: name, ExitCode: p.code, Err: errors.New("exit status")}
	}
	return []byte(p.out), p.code, nil
}

type mapped struct {
	device devicemapper.Device
	err    error
}

func (m mapped) Named(context.Context, string) (devicemapper.Device, error) { return m.device, m.err }

// newContainers returns containers on a node where 253:5 is built on the devices.
func newContainers(t *testing.T, p *programs, m mapped, below ...string) *Containers {
	t.Helper()
	c := New(p, m)
	c.sysfs = t.TempDir()
	folder := filepath.Join(c.sysfs, "dev/block/253:5/slaves")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, number := range below {
		path := filepath.Join(folder, fmt.Sprintf("dm-%d", i), "dev")
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(number+"\n"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

var open = devicemapper.Device{Name: "x", UUID: "CRYPT-LUKS2-1234-x", Number: "253:5"}

func TestMapping(t *testing.T) {
	absent := fmt.Errorf("read: %w", devicemapper.ErrNotFound)
	for name, test := range map[string]struct {
		mapped mapped
		below  []string
		want   Mapping
		says   string
	}{
		"open": {mapped{device: open}, []string{"254:7"},
			Mapping{Path: "/dev/mapper/x", Number: "253:5", Below: "254:7"}, ""},
		"not open":          {mapped{err: absent}, nil, Mapping{}, ""},
		"cannot be read":    {mapped{err: errors.New("busy")}, nil, Mapping{}, "busy"},
		"something else":    {mapped{device: devicemapper.Device{UUID: "LVM-x", Number: "253:5"}}, nil, Mapping{}, "LVM-x"},
		"without a table":   {mapped{device: open}, nil, Mapping{Incomplete: true}, ""},
		"on several":        {mapped{device: open}, []string{"8:1", "8:2"}, Mapping{}, "2 devices"},
		"never had a table": {mapped{device: devicemapper.Device{UUID: open.UUID, Number: "1:1"}}, nil, Mapping{Incomplete: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newContainers(t, &programs{}, test.mapped, test.below...).Mapping(t.Context(), "x")
			if got != test.want || (err != nil) != (test.says != "") ||
				err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestSlots(t *testing.T) {
	for name, test := range map[string]struct {
		out  string
		code int
		want int
		says string
	}{
		"one":            {out: `{"keyslots":{"0":{"type":"luks2"}},"tokens":{}}`, want: 1},
		"two":            {out: `{"keyslots":{"0":{},"1":{}}}`, want: 2},
		"none":           {out: `{"keyslots":{}}`},
		"no list":        {out: `{"tokens":{}}`, says: "keyslots"},
		"no output":      {says: "JSON"},
		"cut off":        {out: `{"keyslots":{"0":`, says: "JSON"},
		"cannot be read": {out: `{"keyslots":{}}`, code: 1, says: "exit status"},
		"no permission":  {out: `{"keyslots":{}}`, code: exitNoPermission, says: "exit status"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newContainers(t, &programs{out: test.out, code: test.code}, mapped{}).Slots(t.Context(), "/dev/a")
			if got != test.want || (err != nil) != (test.says != "") ||
				err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

// TestKeysAreInNoArgument runs each operation with each exit status. Only the exit status for a wrong key is one, and
// only if the operation tries a key.
func TestKeysAreInNoArgument(t *testing.T) {
	key, other := []byte("the secret key"), []byte("another secret key")
	for name, test := range map[string]struct {
		run    func(context.Context, *Containers) error
		inputs []string
		tries  bool
		has    []string
	}{
		"format": {func(ctx context.Context, c *Containers) error { return c.Format(ctx, "/dev/a", key) },
			[]string{string(key)}, false, []string{"luksFormat", "pbkdf2", "/dev/a"}},
		"open": {func(ctx context.Context, c *Containers) error { return c.Open(ctx, "/dev/a", "x", key, false) },
			[]string{string(key)}, true, []string{"open", "--disable-keyring", "/dev/a", "x"}},
		"open with discards": {func(ctx context.Context, c *Containers) error { return c.Open(ctx, "/dev/a", "x", key, true) },
			[]string{string(key)}, true, []string{"--allow-discards"}},
		"add": {func(ctx context.Context, c *Containers) error { return c.AddKey(ctx, "/dev/a", key, other) },
			[]string{string(key), string(other)}, true, []string{"luksAddKey", "pbkdf2", "/dev/a", host.SecondInput}},
		"remove": {func(ctx context.Context, c *Containers) error { return c.RemoveKey(ctx, "/dev/a", key) },
			[]string{string(key)}, true, []string{"luksRemoveKey", "/dev/a"}},
		"resize": {func(ctx context.Context, c *Containers) error { return c.Resize(ctx, "x") }, nil, false,
			[]string{"resize", "x"}},
		"close": {func(ctx context.Context, c *Containers) error { return c.Close(ctx, "x") }, nil, false,
			[]string{"close", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			for code := range 6 {
				p := &programs{code: code}
				err := test.run(t.Context(), newContainers(t, p, mapped{device: open}, "254:7"))
				wrongKey := test.tries && code == exitNoPermission
				if (err == nil) != (code == 0) || errors.Is(err, ErrWrongKey) != wrongKey {
					t.Errorf("exit status %d: %v", code, err)
				}
				if !slices.Equal(p.inputs, test.inputs) || strings.Contains(strings.Join(p.args, " "), "secret") ||
					p.args[0] != cryptsetup || !slices.Contains(p.args, "--disable-locks") {
					t.Errorf("ran %q with the inputs %q", p.args, p.inputs)
				}
				for _, word := range test.has {
					if !slices.Contains(p.args, word) {
						t.Errorf("ran %q, without %s", p.args, word)
					}
				}
			}
		})
	}
}

func TestFits(t *testing.T) {
	for code, want := range map[int]bool{0: true, exitNoPermission: false, 1: false, 4: false} {
		got, err := newContainers(t, &programs{code: code}, mapped{}).Fits(t.Context(), "/dev/a", []byte("key"))
		if got != want || (err != nil) != (code == 1 || code == 4) {
			t.Errorf("exit status %d: %t, %v", code, got, err)
		}
	}
}

// TestWhatAKilledOpenLeftIsRemoved checks both operations after cryptsetup was killed before the mapped device had a
// table.
func TestWhatAKilledOpenLeftIsRemoved(t *testing.T) {
	for name, do := range map[string]func(*Containers) error{
		"open":  func(c *Containers) error { return c.Open(t.Context(), "/dev/a", "x", []byte("key"), false) },
		"close": func(c *Containers) error { return c.Close(t.Context(), "x") },
	} {
		p := &programs{}
		if err := do(newContainers(t, p, mapped{device: open})); err != nil || !strings.Contains(p.all, dmsetup+" remove") {
			t.Errorf("%s: %v, ran %s", name, err, p.all)
		}
		failing := &programs{code: 1}
		if err := do(newContainers(t, failing, mapped{device: open})); err == nil || strings.Contains(failing.all, " open ") {
			t.Errorf("%s, dmsetup fails: %v, ran %s", name, err, failing.all)
		}
		unread := &programs{}
		if err := do(newContainers(t, unread, mapped{err: errors.New("busy")})); err == nil || unread.all != "" {
			t.Errorf("%s, not known: %v, ran %s", name, err, unread.all)
		}
	}
}

func TestCloseOfAContainerThatIsNotOpenSucceeds(t *testing.T) {
	gone := mapped{err: devicemapper.ErrNotFound}
	if err := newContainers(t, &programs{code: 4}, gone).Close(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	unknown := mapped{err: errors.New("no device-mapper")}
	if err := newContainers(t, &programs{code: 4}, unknown).Close(t.Context(), "x"); err == nil {
		t.Error("it is unknown whether it is open, and the call succeeded")
	}
}

func FuzzParseSlots(f *testing.F) {
	f.Add([]byte(`{"keyslots":{"0":{"type":"luks2"}}}`))
	f.Add([]byte(`{"keyslots":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if slots, err := parseSlots(data); slots < 0 || err != nil && slots != 0 {
			t.Errorf("got %d, %v", slots, err)
		}
	})
}
