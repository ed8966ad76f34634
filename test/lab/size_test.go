package lab

import (
	"reflect"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1M": MiB, "512M": 512 * MiB, "8G": 8 * GiB, "8g": 8 * GiB, "8GiB": 8 * GiB, "8GB": 8 * GiB, "1T": TiB,
		"16T": 16 * TiB,
		"":    0, "8": 0, "G": 0, "0G": 0, "-1G": 0, "1.5G": 0, "1K": 0, "17T": 0, "99999999999T": 0,
		"1GG": 0, "1BG": 0,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseSize(text)
			if (err != nil) != (want == 0) || got != want {
				t.Errorf("got %d, %v, want %d", got, err, want)
			}
		})
	}
}

func TestParseDisks(t *testing.T) {
	for text, want := range map[string][]DiskSpec{
		"":             nil,
		"8G":           {{Size: 8 * GiB}},
		"8G,scsi:300M": {{Size: 8 * GiB}, {Kind: SCSI, Size: 300 * MiB}},
		"plain:1G,1G":  {{Kind: Plain, Size: GiB}, {Size: GiB}},
		"shared:1G":    {{Kind: Shared, Size: GiB}},
		"other:1G":     {{Kind: "other", Size: GiB}}, // refused by validate, with a better error
	} {
		got, err := ParseDisks(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{",", "8G,", "scsi:", "8G;8G"} {
		if got, err := ParseDisks(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
