package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// The layout of ext2, ext3 and ext4: https://docs.kernel.org/filesystems/ext4/
const (
	extSuperblock     = 1024
	extSuperblockSize = 1024
	extMagic          = 0xEF53
	extRoot           = 2
	extJournal        = 8
	extExtentMagic    = 0xF30A
	// extUnwritten is the length of an extent from which on it is not written, and reads as zeros.
	extUnwritten = 32768
)

// Incompatible features.
const (
	extHasFileType   = 0x2
	extNeedsRecovery = 0x4
	extUnsupported   = 0x1 | 0x8 | 0x10 | 0x1000 // compression, journal device, meta_bg, dirdata
	extHasExtents    = 0x40
	ext64Bit         = 0x80
	extKnown         = 0xF | 0x10 | extHasExtents | ext64Bit | 0x700 | 0xF000 | 0x30000
)

// Flags of inodes and of groups.
const (
	extInodeExtents    = 0x80000
	extInodeAttributes = 0x200000
	extInodeInline     = 0x10000000
	extGroupNoInodes   = 0x1
)

// mostInodeTable is the number of bytes of an inode table that are read at once.
const mostInodeTable = 1 << 20

// mostDescriptors limits the size of the group descriptors, in bytes: 64 MiB describe 128 TiB.
const mostDescriptors = 64 << 20

var little = binary.LittleEndian

type ext struct {
	*finder
	block                                 int64
	inodeSize                             int64
	inodesCount, inodesPerGroup, firstOwn uint32
	incompatible                          uint32
	own                                   map[uint64]string // inodes of quota and orphans, by number
	groups                                []extGroup
	// stale is true if the groups are from a backup, which does not know which inodes are used.
	stale bool
}

type extGroup struct {
	table  int64 // the inode table's first byte
	unused uint32
	flags  uint16
}

// openExt returns nil if there is no ext file system.
func openExt(f *finder) (volume, error) {
	e, err := extAt(f, extSuperblock, 0)
	if e != nil {
		return e, nil
	}
	if !errors.Is(err, errLost) {
		return nil, err
	}
	// Backups are in group 1 and in groups whose number is a power of 3, 5 or 7.
	for _, block := range []int64{4096, 1024, 2048} {
		first := int64(0)
		if block == 1024 {
			first = 1
		}
		for _, group := range []int64{1, 3, 5, 7, 9, 25, 27, 49} {
			if e, _ := extAt(f, (first+group*8*block)*block, group); e != nil && e.block == block {
				f.incomplete("the first superblock or group descriptors are lost: a backup of group %d was used", group)
				return e, nil
			}
		}
	}
	return nil, nil
}

// extAt reads a superblock and the group descriptors behind it. It returns nil without an error if there is none.
func extAt(f *finder, at, group int64) (*ext, error) {
	if f.size < at+extSuperblockSize {
		return nil, nil
	}
	sb, err := f.read(at, extSuperblockSize)
	if err != nil {
		return nil, err
	}
	if little.Uint16(sb[56:]) != extMagic {
		return nil, nil
	}
	e := &ext{finder: f, stale: group > 0}
	if err := e.superblock(sb); err != nil {
		return nil, err
	}
	if err := e.descriptors(sb, group); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *ext) superblock(sb []byte) error {
	shift := little.Uint32(sb[24:])
	e.incompatible = little.Uint32(sb[96:])
	e.inodesCount, e.inodesPerGroup = little.Uint32(sb[0:]), little.Uint32(sb[40:])
	e.inodeSize, e.firstOwn = 128, 11
	if little.Uint32(sb[76:]) > 0 {
		e.inodeSize, e.firstOwn = int64(little.Uint16(sb[88:])), little.Uint32(sb[84:])
	}
	if shift > 6 || e.inodesPerGroup == 0 || little.Uint32(sb[32:]) == 0 || e.inodeSize < 128 ||
		e.inodeSize > 1024<<shift || e.inodeSize&(e.inodeSize-1) != 0 {
		return fmt.Errorf("%w: the superblock of the ext4 file system is damaged", ErrUnknown)
	}
	if bad := e.incompatible & (extUnsupported | ^uint32(extKnown)); bad != 0 {
		return fmt.Errorf("%w: the ext4 file system has features that are not supported: %#x",
			ErrUnknown, bad)
	}
	e.block = 1024 << shift
	e.own = map[uint64]string{}
	for _, at := range []int{576, 580, 620, 640} { // quota of users, groups and projects; orphans
		e.own[uint64(little.Uint32(sb[at:]))] = "quota and orphan lists"
	}
	e.report.Unreplayed = e.incompatible&extNeedsRecovery != 0
	e.report.FileSystem = "ext4"
	if e.incompatible&extHasExtents == 0 {
		e.report.FileSystem = "ext2 or ext3"
	}
	return nil
}

// descriptors reads the group descriptors, and counts lost bytes of the metadata that they name.
func (e *ext) descriptors(sb []byte, group int64) error {
	blocks := int64(little.Uint32(sb[4:]))
	size := int64(32)
	if e.incompatible&ext64Bit != 0 {
		blocks |= int64(little.Uint32(sb[336:])) << 32
		size = int64(little.Uint16(sb[254:]))
	}
	first, perGroup := int64(little.Uint32(sb[20:])), int64(little.Uint32(sb[32:]))
	if size < 32 || size > e.block || blocks <= first || blocks > e.size/e.block {
		return fmt.Errorf("%w: the ext4 file system does not fit into the copy", ErrUnknown)
	}
	count := (blocks - first + perGroup - 1) / perGroup
	if count*int64(e.inodesPerGroup) < int64(e.inodesCount) || count*size > mostDescriptors {
		return fmt.Errorf("%w: the superblock of the ext4 file system is damaged", ErrUnknown)
	}
	table, err := e.read((first+group*perGroup+1)*e.block, int(count*size))
	if err != nil {
		return err
	}
	e.metadata = map[string]int64{}
	e.metadataAt("superblock and group descriptors", first*e.block, e.block+count*size)
	for i := range count {
		d := table[i*size : (i+1)*size]
		at := [3]int64{}
		for j := range at { // block bitmap, inode bitmap, inode table
			at[j] = int64(little.Uint32(d[4*j:]))
			if size >= 64 {
				at[j] |= int64(little.Uint32(d[32+4*j:])) << 32
			}
			at[j] *= e.block
		}
		unused := uint32(little.Uint16(d[28:]))
		if size >= 64 {
			unused |= uint32(little.Uint16(d[50:])) << 16
		}
		e.metadataAt("bitmaps of free space", at[0], e.block)
		e.metadataAt("bitmaps of free space", at[1], e.block)
		e.groups = append(e.groups, extGroup{table: at[2], unused: unused, flags: little.Uint16(d[18:])})
	}
	return nil
}

func (e *ext) root() uint64 { return extRoot }

// where returns the first byte of an inode, or -1.
func (e *ext) where(number uint64) int64 {
	if number == 0 || number > uint64(e.inodesCount) {
		return -1
	}
	group, index := (number-1)/uint64(e.inodesPerGroup), (number-1)%uint64(e.inodesPerGroup)
	return e.groups[group].table + int64(index)*e.inodeSize
}

func (e *ext) lost(number uint64) bool {
	at := e.where(number)
	return at >= 0 && e.finder.lost.overlap(at, at+e.inodeSize) > 0
}

func (e *ext) inodes(ctx context.Context, visit func(*inode)) error {
	for n, g := range e.groups {
		used := int64(e.inodesPerGroup)
		if !e.stale {
			if g.flags&extGroupNoInodes != 0 {
				continue
			}
			used = max(0, used-int64(g.unused))
		}
		first := uint64(n)*uint64(e.inodesPerGroup) + 1
		step := mostInodeTable / e.inodeSize
		for done := int64(0); done < used; done += step {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("%w: the time limit is reached", ErrUnknown)
			}
			e.table(g.table+done*e.inodeSize, first+uint64(done), min(step, used-done), visit)
		}
	}
	return nil
}

// table reads a part of an inode table. Of one with lost ranges, it reads the inodes one by one.
func (e *ext) table(at int64, first uint64, count int64, visit func(*inode)) {
	content, err := e.read(at, int(count*e.inodeSize))
	if err == nil {
		for i := range count {
			if in, err := e.decode(first+uint64(i), content[i*e.inodeSize:(i+1)*e.inodeSize]); err == nil {
				visit(in)
			}
		}
		return
	}
	if !errors.Is(err, errLost) {
		e.incomplete("inodes %d to %d: %v", first, first+uint64(count)-1, err)
		return
	}
	lost := uint64(0)
	for number := first; number < first+uint64(count); number++ {
		if e.lost(number) {
			lost++
			continue
		}
		in, err := e.inode(number)
		if err == nil {
			visit(in)
		}
	}
	e.metadataAt("inode tables", at, count*e.inodeSize)
	e.incomplete("%d of the inodes %d to %d are lost: if they were in use, their files are lost, and files with lost "+
		"names are not listed", lost, first, first+uint64(count)-1)
}

func (e *ext) inode(number uint64) (*inode, error) {
	at := e.where(number)
	if at < 0 {
		return nil, fmt.Errorf("inode %d does not exist", number)
	}
	content, err := e.read(at, int(e.inodeSize))
	if err != nil {
		return nil, err
	}
	return e.decode(number, content)
}

func (e *ext) decode(number uint64, raw []byte) (*inode, error) {
	mode, flags := little.Uint16(raw), little.Uint32(raw[32:])
	if (mode == 0 || little.Uint16(raw[26:]) == 0) && number != extJournal {
		return nil, errUnused
	}
	in := &inode{number: number, size: int64(little.Uint32(raw[4:])), kind: other}
	format := mode >> 12
	if format == 4 {
		in.kind = folder
	}
	if format == 8 || format == 4 {
		in.size |= int64(little.Uint32(raw[108:])) << 32
	}
	in.special = e.special(number, flags)
	if acl := int64(little.Uint32(raw[104:])) | int64(little.Uint16(raw[118:]))<<32; acl != 0 {
		in.attributes = []Span{{acl * e.block, (acl + 1) * e.block}}
	}
	body := raw[40:100]
	switch {
	case flags&extInodeInline != 0:
		if in.kind == folder {
			in.broken = errors.New("entries within inodes are not supported")
		}
	case format == 10 && in.size < 60, format != 4 && format != 8 && format != 10: // a short link, or no content
	case flags&extInodeExtents != 0:
		e.extents(in, body, -1)
	default:
		e.indirect(in, body)
	}
	return in, nil
}

// special returns what the file system itself uses an inode for, or "" for an inode of users.
func (e *ext) special(number uint64, flags uint32) string {
	switch {
	case number == extJournal:
		return "journal"
	case number < uint64(e.firstOwn) && number != extRoot:
		return "reserved inodes"
	case e.own[number] != "":
		return e.own[number]
	case flags&extInodeAttributes != 0:
		return Attributes
	}
	return ""
}

// extents reads a node of an extent tree. depth is -1 for the root, which has any depth.
func (e *ext) extents(in *inode, node []byte, depth int) {
	count, own := int(little.Uint16(node[2:])), int(little.Uint16(node[6:]))
	if little.Uint16(node) != extExtentMagic || own > 5 || (depth >= 0 && own != depth) || 12*(count+1) > len(node) {
		in.broken = errors.New("its extent tree is damaged")
		return
	}
	for i := range count {
		item := node[12*(i+1):]
		if own > 0 {
			at := (int64(little.Uint32(item[4:])) | int64(little.Uint16(item[8:]))<<32) * e.block
			if child, ok := e.treeBlock(in, at); ok {
				e.extents(in, child, own-1)
			}
			continue
		}
		length := int64(little.Uint16(item[4:]))
		if length > extUnwritten {
			continue
		}
		start := int64(little.Uint32(item[8:])) | int64(little.Uint16(item[6:]))<<32
		e.extent(in, int64(little.Uint32(item)), start, length)
	}
}

func (e *ext) extent(in *inode, logical, start, length int64) {
	if len(in.data) >= e.mostBlocks(e.block) {
		in.broken = errors.New("it has too many extents")
		return
	}
	in.data = append(in.data, extent{logical * e.block, start * e.block, length * e.block})
}

// treeBlock reads a block of a tree, and records it.
func (e *ext) treeBlock(in *inode, at int64) ([]byte, bool) {
	if len(in.tree) >= e.mostBlocks(e.block) {
		in.broken = errors.New("it has too many blocks with extents")
		return nil, false
	}
	in.tree = append(in.tree, Span{at, at + e.block})
	child, err := e.read(at, int(e.block))
	if err != nil {
		in.broken = err
		return nil, false
	}
	return child, true
}

// indirect reads the block numbers of an inode without extents: 12 direct ones, and three trees.
func (e *ext) indirect(in *inode, body []byte) {
	logical := int64(0)
	for i := range 12 {
		if start := little.Uint32(body[4*i:]); start != 0 {
			e.extent(in, logical, int64(start), 1)
		}
		logical++
	}
	per := e.block / 4
	span := per
	for depth := 1; depth <= 3; depth++ {
		if start := little.Uint32(body[44+4*depth:]); start != 0 {
			e.indirectBlock(in, int64(start), logical, depth)
		}
		logical += span
		span *= per
	}
}

func (e *ext) indirectBlock(in *inode, start, logical int64, depth int) {
	node, ok := e.treeBlock(in, start*e.block)
	if !ok {
		return
	}
	span := int64(1)
	for range depth - 1 {
		span *= e.block / 4
	}
	for at := 0; at < len(node); at += 4 {
		if child := little.Uint32(node[at:]); child != 0 && depth == 1 {
			e.extent(in, logical, int64(child), 1)
		} else if child != 0 {
			e.indirectBlock(in, int64(child), logical, depth-1)
		}
		logical += span
	}
}

func (e *ext) entries(in *inode, visit func(entry)) error {
	if in.broken != nil {
		return in.broken
	}
	var damaged error
	for _, x := range in.data {
		for at := x.physical; at < x.physical+x.length; at += e.block {
			block, err := e.read(at, int(e.block))
			if errors.Is(err, errLost) {
				continue // it was counted as lost entries
			}
			if err == nil {
				err = e.folderBlock(block, visit)
			}
			if err != nil {
				damaged = err
			}
		}
	}
	return damaged
}

func (e *ext) folderBlock(block []byte, visit func(entry)) error {
	for at := 0; at+8 <= len(block); {
		number, length := little.Uint32(block[at:]), int(little.Uint16(block[at+4:]))
		name := int(block[at+6])
		if length == 65535 || length == 0 {
			length = len(block) // a block of 64 KiB
		}
		if length < 8 || at+length > len(block) || 8+name > length {
			return errors.New("it has damaged entries: names of files in it are unknown")
		}
		if text := string(block[at+8 : at+8+name]); number != 0 && name > 0 && text != "." && text != ".." {
			visit(entry{text, uint64(number), e.entryKind(block[at+7])})
		}
		at += length
	}
	return nil
}

func (e *ext) entryKind(stored byte) kind {
	switch {
	case e.incompatible&extHasFileType == 0 || stored == 0:
		return unknown
	case stored == 2:
		return folder
	}
	return other
}
