package service

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestMkfsOptionsOfTheLayout are the options that administrators use.
func TestMkfsOptionsOfTheLayout(t *testing.T) {
	for fileSystem, all := range map[string][]string{
		"ext4": {"", "-N 1000  -E lazy_itable_init=0", "-b4096 -i 65536", "-O ^has_journal,metadata_csum",
			"-E stride=16,stripe-width=64,nodiscard", "-J size=64", "-m 0.5 -L data_1", "-T largefile4", "-U random",
			"-I 256 -e remount-ro"},
		"xfs": {"", "-i size=512 -n ftype=1", "-m reflink=1,bigtime=1", "-d su=64k,sw=4 -l size=64m,lazy-count=1",
			"-s size=4096 -b size=4096", "-K -L data", "-dagcount=8"},
	} {
		for _, options := range all {
			got, err := MkfsOptions(fileSystem, options)
			if err != nil || !slices.Equal(got, strings.Fields(options)) {
				t.Errorf("%s %q: got %q, %v", fileSystem, options, got, err)
			}
		}
	}
}

// TestMkfsOptionsThatReachBeyondTheVolume are refused: each of them reads or writes something else on the node, creates
// something that is no file system, or lets the volume stop the node.
func TestMkfsOptionsThatReachBeyondTheVolume(t *testing.T) {
	for fileSystem, all := range map[string][]string{
		"ext4": {"-d/proc/1/root/etc", "-d /etc", "-d etc", "-z /undo", "-z undo", "-J device=/dev/sda",
			"-J device=LABEL=x", "-J size=64,location=1,device=UUID=x", "-l badblocks", "-c", "-n", "-S", "-F", "-t xfs",
			"-e panic", "-M /x", "-o hurd", "-O feature/x", "-E lazy_itable_init=0,test_fs", "-E offset=4096", "/dev/sda",
			"sda", "-", "--", "-q/x", "-qd/etc", "-N", "-N -d/etc", "-b 4096 100", "-E stride=1\u00a0-d/x", "-L -d",
			"-U clear", "-m 1e3", "-E root_owner", "-E root_perms=/x"},
		"xfs": {"-llogdev=/dev/sda,size=64m", "-l logdev=sda", "-l name=/dev/sda", "-l file=1,size=64m", "-rrtdev=/dev/sdb",
			"-r name=x", "-p /proto", "-pproto", "-coptions=/x", "-c options=x", "-dname=/dev/sda", "-d file=1,size=1g",
			"-d size=1g", "-N", "-C", "-n size=4096,logdev=x", "-s sectsize=/x", "-m config=/x", "-P 1", "-b 4096"},
		"btrfs": {"-L x"},
	} {
		for _, options := range all {
			got, err := MkfsOptions(fileSystem, options)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "lvm.topolvm.io/mkfs-options") {
				t.Errorf("%s %q: got %q, %v", fileSystem, options, got, err)
			}
		}
	}
	if _, err := MkfsOptions("ext4", strings.Repeat("-q ", maxMkfsOptions+1)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too many words: got %v", err)
	}
}

// FuzzMkfsOptions: what is accepted has no path, and its words are options or their values.
func FuzzMkfsOptions(f *testing.F) {
	for _, seed := range []string{"-N 1000 -E lazy_itable_init=0", "-d/etc", "-l size=64m,logdev=/dev/sda", "-L a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, options string) {
		for fileSystem := range FileSystems {
			words, err := MkfsOptions(fileSystem, options)
			if err != nil {
				continue
			}
			for i, word := range words {
				if strings.Contains(word, "/") || !strings.HasPrefix(word, "-") && (i == 0 || len(words[i-1]) != 2) {
					t.Errorf("%s accepts %q", fileSystem, words)
				}
			}
		}
	})
}

func TestMountOptions(t *testing.T) {
	for _, flags := range [][]string{nil, {"noatime", "discard"}, {"noatime,nodiratime"}, {"logbsize=256k", "inode64"},
		{"data=ordered", "commit=30"}, {`context="system_u:object_r:container_file_t:s0:c1,c2"`}, {"errors=remount-ro"},
		{"dev", "suid"}, {`fscontext="system_u:object_r:t:s0:c1,c2"`}, {"context=system_u:object_r:t:s0"},
		{"_netdev", "x-systemd.automount"}, {"noatime,"}, {"stripe=64", "usrjquota=aquota.user", "allocsize=1m"}} {
		if err := checkMountOptions(flags); err != nil {
			t.Errorf("%q: got %v", flags, err)
		}
	}
	for _, flags := range [][]string{{"loop"}, {"loop=/dev/loop7"}, {"noatime,loop"}, {"logdev=/dev/sda"},
		{"logdev=sda"}, {"rtdev=x"}, {"journal_path=/dev/sda"}, {"journal_dev=2049"}, {"noatime", "errors=panic"}, {"bind"},
		{"remount"}, {"x-mount.mkdir"}, {"X-mount.subdir=a"}, {"helper=x"}, {"usrjquota=../../x"}, {"offset=512"},
		// libmount removes quotes around a value.
		{`errors="panic"`}, {`loop="a"`}, {`"loop"`}, {`errors=\"panic\"`}, {`a="b`, `errors=panic`},
		{`context="a",loop`}, {`context="a"b"`}, {`context="a,errors=panic`}, {"errors =panic"}, {"errors=panic "},
		{"noatime\nloop"}, {"a\\b"}, {"verity.hashdevice=sda"}, {"-o"}, {"--bind"}, {"ä"}} {
		if err := checkMountOptions(flags); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: got %v", flags, err)
		}
	}
}

// TestFileSystemsCanBeMoved to disks with larger sectors, unless the StorageClass sets the size of blocks or sectors.
func TestFileSystemsCanBeMoved(t *testing.T) {
	for _, test := range []struct{ fileSystem, options, want string }{
		{"ext4", "", "mkfs.ext4 -q -F -m0 -b 4096"},
		{"ext4", "-N 1000 -m 1", "mkfs.ext4 -q -F -m0 -b 4096 -N 1000 -m 1"},
		{"ext4", "-b1024", "mkfs.ext4 -q -F -m0 -b1024"},
		{"ext4", "-b 1024", "mkfs.ext4 -q -F -m0 -b 1024"},
		{"ext4", "-T small", "mkfs.ext4 -q -F -m0 -T small"},
		{"ext4", "-O bigalloc -C 2048", "mkfs.ext4 -q -F -m0 -O bigalloc -C 2048"},
		{"xfs", "", "mkfs.xfs -q -f -s size=4096"},
		{"xfs", "-i size=1024", "mkfs.xfs -q -f -s size=4096 -i size=1024"},
		{"xfs", "-ssize=512", "mkfs.xfs -q -f -ssize=512"},
		{"xfs", "-b size=1024", "mkfs.xfs -q -f -b size=1024"},
		{"xfs", "-l version=1", "mkfs.xfs -q -f -l version=1"},
	} {
		for range 2 {
			if got := MkfsCommand(test.fileSystem, strings.Fields(test.options)); strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		}
	}
}
