package lvm

import "testing"

func TestMetadataArea(t *testing.T) {
	for name, tt := range map[string]struct {
		area           MetadataArea
		limit, reserve Bytes
		full           bool
	}{
		"not known":                {MetadataArea{}, 0, 8192, false},
		"LVM's default, empty":     {MetadataArea{Size: 1044480, Free: 520704}, 521984, 73440, false},
		"LVM's default, used up":   {MetadataArea{Size: 1044480, Free: 73439}, 521984, 73440, true},
		"LVM's default, at it":     {MetadataArea{Size: 1044480, Free: 73440}, 521984, 73440, false},
		"small, as in a lab":       {MetadataArea{Size: 126976, Free: 59392}, 63232, 16096, false},
		"small, with 82 volumes":   {MetadataArea{Size: 126976, Free: 12288}, 63232, 16096, true},
		"no byte left":             {MetadataArea{Size: 126976}, 63232, 16096, true},
		"ours":                     {MetadataArea{Size: 16773120, Free: 8384512}, 8386304, 1056480, false},
		"ours, with 10000 volumes": {MetadataArea{Size: 16773120, Free: 8384512 - 10000*600}, 8386304, 1056480, false},
		"smaller than its header":  {MetadataArea{Size: 100}, 0, 8192, true},
	} {
		if got := tt.area; got.Limit() != tt.limit || got.Reserve() != tt.reserve || got.IsFull() != tt.full {
			t.Errorf("%s: got the limit %d, the reserve %d and full %t", name, got.Limit(), got.Reserve(), got.IsFull())
		}
	}
}

// TestOursIsReadByLVM: the text of a volume group with our area that accepts volumes has less than 7 MiB, because LVM
// warns from there on.
func TestOursIsReadByLVM(t *testing.T) {
	area := MetadataArea{Size: 16773120}
	if most := area.Limit() - area.Reserve(); most > 7<<20 {
		t.Errorf("the text can have %d bytes", most)
	}
}

func TestMetadataAreaWithVolume(t *testing.T) {
	area := MetadataArea{Size: 126976, Free: 2000}.WithVolume([]string{"0123456789", "a"})
	if area.Free != 2000-512-10-1-8 || area.Size != 126976 {
		t.Errorf("got %+v", area)
	}
	for range 5 {
		area = area.WithVolume(nil)
	}
	if area.Free != 0 {
		t.Errorf("got %+v", area)
	}
}
