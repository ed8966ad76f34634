package lvmd

import "strconv"

// RAIDOptions returns the lvcreate options for volumes with redundancy, in the format of existing configurations.
// level is LVM's type, for example "raid1". mirrors is the number of additional copies. stripes is the number of
// images that hold data. stripeSize is in bytes, a multiple of 1024. LVM chooses values that are 0.
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
