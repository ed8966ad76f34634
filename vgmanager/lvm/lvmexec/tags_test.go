package lvmexec

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestATagThatIsNoTagReachesNoProgram: a tag can have the text of an object, and an option must not be made of it.
func TestATagThatIsNoTagReachesNoProgram(t *testing.T) {
	ctx := t.Context()
	calls := 0
	l := New(&runner{answer: func(context.Context, []string) ([]byte, error) {
		calls++
		return nil, nil
	}})
	for _, tag := range []string{"", "-x", "--config=x", "lvms.copy-of=a b", "lvms.copy-of=a\nb", "lvms.pvc=a,b", "@x",
		"lvms.base=\"x\"", "ä", strings.Repeat("x", 1025)} {
		for what, do := range map[string]func() error{
			"a new group": func() error { return l.Apply(ctx, lvm.VGCreate{Name: "g", Tags: []string{tag}}) },
			"a new volume": func() error {
				return l.Apply(ctx, lvm.LVCreateThick{VG: "g", Name: "a", Size: 4 << 20, Tags: []string{"lvms", tag}})
			},
			"a volume": func() error {
				return l.Apply(ctx, lvm.LVChangeTags{VG: "g", Name: "a", Add: []string{tag}})
			},
		} {
			if err := do(); !errors.Is(err, lvm.ErrInvalid) || calls > 0 {
				t.Errorf("%s with the tag %q: got %v after %d calls", what, tag, err, calls)
			}
		}
	}
	for _, tag := range []string{"lvms", "lvms.pvc=ns/a-b_c.d", "lvms.spread=node:required:ns/g", "+x", ".x",
		"lvms.encryption=luks2", strings.Repeat("x", 1024)} {
		if err := (lvm.Command{Args: []string{"lvchange", "--addtag", tag, "g/a"}}).Validate(); err != nil {
			t.Errorf("%q: got %v", tag, err)
		}
	}
}
