// Package files finds which files of an ext4 or XFS file system have content in lost ranges. It reads the copy of the
// file system, changes nothing and runs no program. It does not replay the journal.
//
// The first pass reads all inodes, and keeps those that have blocks in lost ranges. The second pass walks the folders
// from the root to find their names.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// maxFiles limits the files that are kept with their names, maxNames the names, maxFolders the folders of a walk,
	// maxExtents the extents of a file, and maxReasons the reasons that are kept.
	maxFiles   = 100_000
	maxNames   = 200_000
	maxFolders = 4_000_000
	maxExtents = 1 << 20
	maxReasons = 20
	// maxDepth limits the depth of folders and of trees.
	maxDepth = 512
)

// Span is a range of bytes of the device, from Start to before End.
type Span struct{ Start, End int64 }

// spans are sorted and do not overlap.
type spans []Span

// overlap returns the number of bytes of a span that are in s.
func (s spans) overlap(from, to int64) int64 {
	i, _ := slices.BinarySearchFunc(s, from, func(a Span, at int64) int {
		if a.End > at {
			return 1
		}
		return -1
	})
	var sum int64
	for ; i < len(s) && s[i].Start < to; i++ {
		sum += min(s[i].End, to) - max(s[i].Start, from)
	}
	return sum
}

// What is lost of a file.
const (
	Content    = "content"
	Entries    = "directory entries"
	Inode      = "inode"
	BlockMap   = "block map"
	Attributes = "extended attributes"
)

// File is a file or directory with lost data.
type File struct {
	// Path is the path below the root of the file system, or "" if it was not found. A file has several paths if it has
	// several names.
	Path  string
	Inode uint64
	// Lost is the number of lost bytes of the content, and What are the parts that are lost, sorted.
	Lost int64
	What []string
}

// Metadata is lost metadata that belongs to no file.
type Metadata struct {
	Kind string
	Lost int64
}

// Report is the result of Find.
type Report struct {
	// FileSystem is "ext2", "ext3", "ext4" or "xfs".
	FileSystem string
	// Files are sorted by path. Count is their number; it is larger if there are more than are kept.
	Files []File
	Count int
	// Metadata has the lost metadata by kind.
	Metadata []Metadata
	// Incomplete are the reasons why other files may have lost data as well, or why names are unknown.
	Incomplete []string
	// Unreplayed is true if the journal has, or may have, changes that the report does not consider.
	Unreplayed bool
}

// ErrUnknown is wrapped in errors about a file system that is not supported, or that is not recognized.
var ErrUnknown = errors.New("not determined")

// volume is a file system. Its methods report lost or broken metadata to the finder and continue.
type volume interface {
	// inodes calls visit for each inode in use.
	inodes(ctx context.Context, visit func(*inode)) error
	// inode reads an inode. It returns errLost if it is in a lost range, and errUnused if it is free.
	inode(number uint64) (*inode, error)
	// entries calls visit for each entry of a folder, except . and ..
	entries(folder *inode, visit func(entry)) error
	root() uint64
	// lost returns true if a part of an inode is in a lost range. It does not read the inode.
	lost(number uint64) bool
}

type entry struct {
	name   string
	number uint64
	// kind is unknown if the file system does not store it in entries.
	kind kind
}

type kind uint8

const (
	unknown kind = iota
	folder
	other
)

// inode is the part of an inode that the finder needs.
type inode struct {
	number uint64
	// special is the kind of metadata, for inodes that are not files.
	special string
	kind    kind
	size    int64
	// data are the extents of the content, tree the blocks that have the extents, and attributes those of attributes.
	data       []extent
	tree       []Span
	attributes []Span
	// inline has the entries of a small folder.
	inline []byte
	// broken is why the extents are incomplete.
	broken error
}

// extent is a part of a file: bytes of the file from logical on are at the device's bytes from physical on.
type extent struct{ logical, physical, length int64 }

var (
	errLost   = errors.New("is lost")
	errUnused = errors.New("is not in use")
)

// finder collects the report.
type finder struct {
	source io.ReaderAt
	size   int64
	lost   spans
	report Report
	found  map[uint64]*File
	// named are the files with a name.
	named    map[uint64]bool
	files    []File
	metadata map[string]int64
	reasons  int
	limited  map[string]bool
}

// Find reads the copy, of size bytes, and returns what the lost ranges hit. The ranges must be sorted and not overlap.
// An error that wraps ErrUnknown means that nothing is known about files.
func Find(ctx context.Context, source io.ReaderAt, size int64, lost []Span) (*Report, error) {
	f := &finder{source: source, size: size, lost: lost, found: map[uint64]*File{}, named: map[uint64]bool{},
		metadata: map[string]int64{}, limited: map[string]bool{}}
	v, err := f.detect()
	if err != nil {
		return nil, err
	}
	if err := v.inodes(ctx, f.examine); err != nil {
		return nil, err
	}
	if err := f.walk(ctx, v); err != nil {
		return nil, err
	}
	return f.finish(), nil
}

func (f *finder) detect() (volume, error) {
	for _, open := range []func(*finder) (volume, error){openXFS, openExt} {
		if v, err := open(f); v != nil || err != nil {
			return v, err
		}
	}
	hint := "the volume has no ext4 or XFS file system"
	if f.lost.overlap(0, extSuperblock+extSuperblockSize) > 0 {
		hint = "the beginning of the volume is lost, and with it the superblock of its file system"
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknown, hint)
}

// read reads metadata. It returns errLost if a part of it is lost.
func (f *finder) read(at int64, length int) ([]byte, error) {
	if at < 0 || length < 0 || at > f.size-int64(length) {
		return nil, fmt.Errorf("byte %d is behind the end of the volume", at)
	}
	if f.lost.overlap(at, at+int64(length)) > 0 {
		return nil, errLost
	}
	buffer := make([]byte, length)
	if _, err := f.source.ReadAt(buffer, at); err != nil {
		return nil, fmt.Errorf("read the copy at byte %d: %w", at, err)
	}
	return buffer, nil
}

// mostBlocks is the maximum number of blocks of a tree, or of extents of which none occurs twice: a damaged tree with
// loops must not take longer than a volume full of them.
func (f *finder) mostBlocks(block int64) int { return int(min(maxExtents, f.size/block)) }

// incomplete adds a reason why the report is incomplete.
func (f *finder) incomplete(format string, args ...any) {
	f.reasons++
	if len(f.report.Incomplete) < maxReasons {
		f.report.Incomplete = append(f.report.Incomplete, fmt.Sprintf(format, args...))
	}
}

// once is incomplete for a limit that is reached repeatedly.
func (f *finder) once(reason string) {
	if !f.limited[reason] {
		f.limited[reason] = true
		f.incomplete("%s", reason)
	}
}

// metadataAt counts the lost bytes of metadata.
func (f *finder) metadataAt(kind string, at, length int64) int64 {
	lost := f.lost.overlap(at, at+length)
	if lost > 0 {
		f.metadata[kind] += lost
	}
	return lost
}

// examine checks whether an inode has lost data.
func (f *finder) examine(i *inode) {
	var content, tree, attributes int64
	for _, e := range i.data {
		length := e.length
		if i.special == "" && i.kind != folder {
			length = min(length, i.size-e.logical) // what is behind the end of the file does not count
		}
		if length > 0 {
			content += f.lost.overlap(e.physical, e.physical+length)
		}
	}
	for _, s := range i.tree {
		tree += f.lost.overlap(s.Start, s.End)
	}
	for _, s := range i.attributes {
		attributes += f.lost.overlap(s.Start, s.End)
	}
	if i.special != "" {
		if lost := content + tree + attributes; lost > 0 {
			f.metadata[i.special] += lost
		}
		return
	}
	if i.broken != nil && tree == 0 {
		f.incomplete("inode %d: its block map cannot be read: %v", i.number, i.broken)
	}
	if i.kind == folder {
		f.folder(i, content, tree)
		f.add(i.number, content, Entries)
	} else {
		f.add(i.number, content, Content)
	}
	f.add(i.number, tree, BlockMap)
	f.add(i.number, attributes, Attributes)
}

func (f *finder) folder(i *inode, content, tree int64) {
	if lost := content + tree; lost > 0 {
		f.metadata["directories"] += lost
		f.incomplete("directory inode %d has lost entries: names of files in it are unknown", i.number)
	}
}

// add records lost bytes of a file.
func (f *finder) add(number uint64, lost int64, what string) {
	if lost == 0 && what != Inode {
		return
	}
	file := f.found[number]
	if file == nil {
		f.report.Count++
		if len(f.found) >= maxFiles {
			f.once(fmt.Sprintf("more than %d files have lost data: the others are not listed", maxFiles))
			return
		}
		file = &File{Inode: number}
		f.found[number] = file
	}
	if what == Content || what == Entries {
		file.Lost += lost
	}
	file.What = append(file.What, what)
}

// walk finds the names of files with lost data, and the files whose inodes are lost.
func (f *finder) walk(ctx context.Context, v volume) error {
	type place struct {
		number uint64
		path   string
		depth  int
	}
	seen := map[uint64]bool{v.root(): true}
	stack := []place{{number: v.root()}}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: the time limit is reached", ErrUnknown)
		}
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		i, err := v.inode(at.number)
		if err == nil && i.kind != folder {
			err = errors.New("is not a directory")
		}
		if err != nil {
			f.incomplete("directory %q (inode %d) %v: the names of files below it are unknown", at.path+"/",
				at.number, err)
			continue
		}
		if at.number == v.root() {
			f.name(v, entry{number: at.number, kind: folder}, "/")
		}
		err = v.entries(i, func(e entry) {
			path := at.path + "/" + e.name
			isFolder := f.name(v, e, path)
			switch {
			case !isFolder || seen[e.number]:
			case len(seen) >= maxFolders || at.depth >= maxDepth:
				f.once("there are too many directories, or too deep ones: names in some of them are unknown")
			default:
				seen[e.number] = true
				stack = append(stack, place{e.number, path, at.depth + 1})
			}
		})
		if err != nil {
			f.incomplete("directory %q (inode %d): %v", at.path+"/", at.number, err)
		}
	}
	return nil
}

// name records the name of a file with lost data. It returns true for a folder.
func (f *finder) name(v volume, e entry, path string) bool {
	file := f.found[e.number]
	switch {
	case file == nil && v.lost(e.number):
		f.add(e.number, 0, Inode)
		file = f.found[e.number]
	case e.kind == unknown:
		i, err := v.inode(e.number)
		if err != nil {
			f.incomplete("%q: inode %d: %v", path, e.number, err)
			return false
		}
		e.kind = i.kind
	}
	if file != nil {
		f.named[e.number] = true
		if len(f.files) >= maxNames {
			f.once(fmt.Sprintf("more than %d names are affected: the others are not listed", maxNames))
			return e.kind == folder
		}
		named := *file
		named.Path = path
		f.files = append(f.files, named)
	}
	return e.kind == folder
}

// finish sorts the result.
func (f *finder) finish() *Report {
	for number, file := range f.found {
		if !f.named[number] {
			f.files = append(f.files, *file)
		}
	}
	for i := range f.files {
		what := slices.Clone(f.files[i].What)
		slices.Sort(what)
		f.files[i].What = slices.Compact(what)
	}
	slices.SortFunc(f.files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Inode, b.Inode))
	})
	f.report.Files = f.files
	for kind, lost := range f.metadata {
		f.report.Metadata = append(f.report.Metadata, Metadata{kind, lost})
	}
	slices.SortFunc(f.report.Metadata, func(a, b Metadata) int { return cmp.Compare(a.Kind, b.Kind) })
	if more := f.reasons - len(f.report.Incomplete); more > 0 {
		f.report.Incomplete = append(f.report.Incomplete, fmt.Sprintf("and %d more", more))
	}
	return &f.report
}
