package service

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// maxMkfsOptions is the maximum number of words in the mkfs options of a StorageClass.
const maxMkfsOptions = 32

// mkfsOption is an option of mkfs that a StorageClass may have.
type mkfsOption struct {
	// value is the pattern of the value; nil if the option has none.
	value *regexp.Regexp
	// help says what the value may be.
	help string
}

// Patterns of values. None of them matches a "/", so no value names a device or a file.
const (
	number  = `[0-9]+[kKmMgGtTpPeEsb]?`
	boolean = `[01]`
	label   = `[A-Za-z0-9][A-Za-z0-9._-]*`
	uuid    = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
)

var flag = mkfsOption{}

// one is an option with a value of a pattern.
func one(pattern, help string) mkfsOption {
	return mkfsOption{value: regexp.MustCompile(`^(?:` + pattern + `)$`), help: help}
}

// list is an option with a list of settings: NAME=VALUE with the pattern of a value, or NAME alone for the pattern "".
func list(settings map[string]string) mkfsOption {
	names := slices.Sorted(maps.Keys(settings))
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = regexp.QuoteMeta(name)
		if settings[name] != "" {
			patterns[i] += "=(?:" + settings[name] + ")"
			names[i] += "="
		}
	}
	setting := "(?:" + strings.Join(patterns, "|") + ")"
	return one(setting+"(?:,"+setting+")*", "a list of "+strings.Join(names, ", "))
}

// mkfsOptions are the options that a StorageClass may have, by file system: those of the layout of the file system.
// Options that name another device, a file or a directory are not among them, because mkfs has the permissions of the
// node agent: -d of mke2fs copies a directory of the node into the volume, and -l logdev= of mkfs.xfs overwrites a
// device. Nor is -e panic, with which a defect of the volume stops the node (mke2fs(8), mkfs.xfs(8)).
var mkfsOptions = map[string]map[string]mkfsOption{
	"ext4": {
		"-b": one(number, "a number"), "-C": one(number, "a number"), "-g": one(number, "a number"),
		"-G": one(number, "a number"), "-i": one(number, "a number"), "-I": one(number, "a number"),
		"-N": one(number, "a number"), "-m": one(`[0-9]{1,2}(?:\.[0-9]+)?`, "a percentage"),
		"-r": one(boolean, "0 or 1"), "-L": one(label, "a label"), "-U": one(uuid+"|random", "a UUID or random"),
		"-O": one(`\^?[a-z0-9_]+(?:,\^?[a-z0-9_]+)*`, "a list of features"),
		"-T": one(`[a-z0-9_]+(?:,[a-z0-9_]+)*`, "a list of usage types"),
		"-e": one(`continue|remount-ro`, "continue or remount-ro"),
		"-D": flag, "-j": flag, "-q": flag, "-v": flag,
		"-J": list(map[string]string{"size": number, "fast_commit_size": number}),
		"-E": list(map[string]string{"stride": number, "stripe-width": number, "stripe_width": number, "resize": number,
			"packed_meta_blocks": boolean, "lazy_itable_init": boolean, "lazy_journal_init": boolean, "discard": "",
			"nodiscard": "", "assume_storage_prezeroed": boolean, "num_backup_sb": "[0-2]", "root_owner": `[0-9]+:[0-9]+`,
			"root_perms": "[0-7]{3,4}", "no_copy_xattrs": "", "mmp_update_interval": number, "orphan_file_size": number,
			"quotatype": "(?:usr|grp|prj)quota(?::(?:usr|grp|prj)quota)*", "encoding": "utf8(?:-[0-9.]+)?",
			"encoding_flags": "strict", "hash_seed": uuid}),
	},
	"xfs": {
		"-L": one(label, "a label"), "-f": flag, "-K": flag, "-q": flag,
		"-b": list(map[string]string{"size": number}),
		"-d": list(map[string]string{"agcount": number, "agsize": number, "su": number, "sw": number, "sunit": number,
			"swidth": number, "noalign": "", "concurrency": number, "extszinherit": number, "cowextsize": number,
			"projinherit": number, "rtinherit": boolean, "daxinherit": boolean}),
		"-i": list(map[string]string{"size": number, "perblock": number, "maxpct": number, "align": boolean,
			"attr": "[0-2]", "projid32bit": boolean, "sparse": boolean, "nrext64": boolean, "exchange": boolean}),
		"-l": list(map[string]string{"internal": boolean, "size": number, "version": "[12]", "sunit": number,
			"su": number, "lazy-count": boolean, "agnum": number, "concurrency": number}),
		"-m": list(map[string]string{"bigtime": boolean, "crc": boolean, "finobt": boolean, "inobtcount": boolean,
			"metadir": boolean, "reflink": boolean, "rmapbt": boolean, "autofsck": boolean, "uuid": uuid}),
		"-n": list(map[string]string{"size": number, "version": "2|ci", "ftype": boolean, "parent": boolean}),
		"-s": list(map[string]string{"size": number}),
	},
}

// MkfsOptions splits the parameter of a StorageClass into options for a file system. No shell interprets them, so
// quotes have no special meaning. It returns InvalidArgument for an option or a value that is not in mkfsOptions.
func MkfsOptions(fileSystem, parameter string) ([]string, error) {
	words := strings.Fields(parameter)
	if len(words) > maxMkfsOptions {
		return nil, mkfsError("%d words, more than the limit of %d", len(words), maxMkfsOptions)
	}
	allowed := mkfsOptions[fileSystem]
	for rest := words; len(rest) > 0; rest = rest[1:] {
		word := rest[0]
		name := word[:min(2, len(word))]
		option, known := allowed[name]
		if !known {
			return nil, mkfsError("%q, which is not an option of mkfs.%s that can be set: these are %s", word,
				fileSystem, strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
		}
		value := word[len(name):]
		if option.value == nil {
			if value != "" {
				return nil, mkfsError("%q: option %s of mkfs.%s has no value", word, name, fileSystem)
			}
			continue
		}
		if value == "" && len(rest) > 1 {
			rest = rest[1:]
			value = rest[0]
		}
		if !option.value.MatchString(value) {
			return nil, mkfsError("%q as the value of option %s of mkfs.%s, which must be %s", value, name, fileSystem,
				option.help)
		}
	}
	return words, nil
}

func mkfsError(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "parameter "+wellknown.MkfsOptionsParameter+" has "+format, args...)
}
