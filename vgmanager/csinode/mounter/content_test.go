package mounter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseBlkid(t *testing.T) {
	for name, test := range map[string]struct {
		out   string
		code  int
		want  Content
		fails bool
	}{
		"blank": {code: 2},
		"ext4": {
			out:  "DEVNAME=/dev/vg1/a\nUUID=x\nBLOCK_SIZE=4096\nTYPE=ext4\nUSAGE=filesystem\n",
			want: Content{Kind: "ext4", FileSystem: true}},
		"LUKS": {out: "DEVNAME=/dev/vg1/a\nUUID=x\nTYPE=crypto_LUKS\nUSAGE=crypto\n",
			want: Content{Kind: "crypto_LUKS"}},
		"GPT": {out: "DEVNAME=/dev/vg1/a\nPTUUID=x\nPTTYPE=gpt\n",
			want: Content{Kind: "a partition table (gpt)"}},
		"an answer, and that there is none": {out: "DEVNAME=/dev/vg1/a\n", code: 2, fails: true},
		"no answer":                         {fails: true},
		"half an answer":                    {out: "DEVNAME=/dev/vg1/a\n", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseBlkid([]byte(test.out), test.code)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestReadEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	for _, at := range []int{-1, 0, 1<<20 - 1, 3<<20 - 1} {
		data := make([]byte, 3<<20)
		if at >= 0 {
			data[at] = 1
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		zero, err := readEnds(path)
		// Some file systems do not support O_DIRECT.
		if err != nil && !strings.Contains(err.Error(), "invalid argument") || err == nil && zero != (at < 0) {
			t.Errorf("a byte at %d: got %t, %v", at, zero, err)
		}
	}
	if _, err := readEnds(path + "none"); err == nil {
		t.Error("what is not there can be read")
	}
}
