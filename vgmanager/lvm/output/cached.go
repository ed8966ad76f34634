package output

import "github.com/lvm-storage/lvm-operator/vgmanager/lvm"

// joinCaches makes the hidden volumes of a cache parts of the volume that they belong to. LVM prints them as its pool
// and its origin, in brackets, and not as its parts (lib/report/properties.c). The volume is neither in a thin pool nor
// a snapshot. How full its cache is says nothing about the volume.
func joinCaches(vg *lvm.VG) {
	hidden := map[string]*lvm.LV{}
	for i := range vg.Hidden {
		hidden[vg.Hidden[i].Name] = &vg.Hidden[i]
	}
	join := func(lv *lvm.LV) {
		for _, part := range []*string{&lv.PoolName, &lv.Origin} {
			name := unbracketed(*part)
			if name == *part {
				continue
			}
			*part = ""
			lv.DataPercent = nil
			lv.MetadataPercent = nil
			if found := hidden[name]; found != nil && found.Parent == "" && found != lv {
				found.Parent = lv.Name
			}
		}
	}
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			join(&list[i])
		}
	}
}
