package lvmd

import "strconv"

// RAIDOptions returns the options of lvcreate for volumes with redundancy, in the form that existing configurations
// have. level is LVM's type, for example "raid1"; mirrors are the copies beside the first, stripes the parts that carry
// data, stripeSize is in bytes, a multiple of 1024. What is 0 is left to LVM.
func RAIDOptions(level string, mirrors, stripes int, stripeSize int64) []string {
	options := []string{"--type", level}
	if mirrors > 0 {
		options = append(options, "-m", strconv.Itoa(mirrors))
	}
	if stripes > 0 {
		options = append(options, "--stripes", strconv.Itoa(stripes))
	}
	if stripeSize > 0 {
		options = append(options, "--stripesize", strconv.FormatInt(stripeSize>>10, 10)+"k")
	}
	return options
}
