package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The layout of XFS: https://www.kernel.org/pub/linux/utils/fs/xfs/docs/xfs_filesystem_structure.pdf
const (
	xfsMagic       = "XFSB"
	xfsSuperSize   = 512
	xfsInodesChunk = 64
	// xfsHoleMaskInodes is the number of inodes of a bit of the mask of sparse chunks.
	xfsHoleMaskInodes = 4
	// xfsFolderData is the offset in a folder from which on it has indexes instead of entries.
	xfsFolderData = 32 << 30
)

// Incompatible features of version 5.
const (
	xfsHasFileType = 0x1
	xfsSparse      = 0x2
	xfsBigExtents  = 0x20
	xfsKnown       = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80
)

// Formats of the forks of inodes.
const (
	xfsLocal   = 1
	xfsExtents = 2
	xfsTree    = 3
)

// xfsRealtime is the flag of inodes whose content is on another device.
const xfsRealtime = 0x1

var big = binary.BigEndian

type xfs struct {
	*finder
	block, sector, inodeSize, folderBlock int64
	groupBlocks, groups                   int64
	blocks                                int64
	groupLog, perBlockLog                 uint
	first                                 uint64 // the inode of the root folder
	own                                   map[uint64]string
	v5, fileType, sparse, bigExtents      bool
}

// openXFS returns nil if there is no XFS file system.
func openXFS(f *finder) (volume, error) {
	if f.size < xfsSuperSize {
		return nil, nil
	}
	sb, err := f.read(0, xfsSuperSize)
	if errors.Is(err, errLost) || (err == nil && string(sb[:4]) != xfsMagic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	version := big.Uint16(sb[100:])
	x := &xfs{finder: f, block: int64(big.Uint32(sb[4:])), sector: int64(big.Uint16(sb[102:])),
		inodeSize: int64(big.Uint16(sb[104:])), groupBlocks: int64(big.Uint32(sb[84:])),
		groups: int64(big.Uint32(sb[88:])), blocks: int64(big.Uint64(sb[8:])), groupLog: uint(sb[124]),
		perBlockLog: uint(sb[123]), first: big.Uint64(sb[56:]),
		v5: version&0xF == 5, fileType: big.Uint32(sb[200:])&0x200 != 0}
	incompatible := uint32(0)
	if x.v5 {
		incompatible = big.Uint32(sb[216:])
	}
	if bad := incompatible &^ xfsKnown; bad != 0 || (version&0xF != 4 && !x.v5) {
		return nil, fmt.Errorf("%w: the XFS file system has features that are not supported: %#x",
			ErrUnknown, bad)
	}
	x.fileType = x.fileType || incompatible&xfsHasFileType != 0
	x.sparse, x.bigExtents = incompatible&xfsSparse != 0, incompatible&xfsBigExtents != 0
	x.folderBlock = x.block << min(sb[192], 16)
	if err := x.check(); err != nil {
		return nil, err
	}
	x.own = xfsOwnInodes(sb)
	x.report.FileSystem = "xfs"
	x.report.Unreplayed = true // Whether the log is empty is not examined.
	start, length := int64(big.Uint64(sb[48:])), int64(big.Uint32(sb[96:]))
	if at, ok := x.bytes(uint64(start)); ok && start != 0 {
		x.metadataAt("journal", at, length*x.block)
	}
	return x, nil
}

// xfsOwnInodes returns the inodes that the superblock names, and what the file system uses them for.
func xfsOwnInodes(sb []byte) map[uint64]string {
	own := map[uint64]string{}
	for _, at := range []int{64, 72} { // the bitmap and the summary of the real-time device
		own[big.Uint64(sb[at:])] = "real-time device"
	}
	for _, at := range []int{160, 168, 232} { // quota of users, groups and projects
		own[big.Uint64(sb[at:])] = "quota"
	}
	delete(own, 0)
	return own
}

func (x *xfs) check() error {
	power := func(n, least, most int64) bool { return n >= least && n <= most && n&(n-1) == 0 }
	if !power(x.block, 512, 65536) || !power(x.sector, 512, 32768) || !power(x.inodeSize, 256, 2048) ||
		!power(x.folderBlock, x.block, 65536) || x.groupBlocks == 0 || x.groups == 0 || x.groupLog > 32 ||
		x.groupBlocks > 1<<x.groupLog || x.block>>x.perBlockLog != x.inodeSize || x.blocks <= 0 ||
		x.blocks > x.size/x.block || x.groups != (x.blocks+x.groupBlocks-1)/x.groupBlocks {
		return fmt.Errorf("%w: the superblock of the XFS file system is damaged, or the file "+
			"system does not fit into the copy", ErrUnknown)
	}
	return nil
}

func (x *xfs) root() uint64 { return x.first }

// bytes returns the first byte of a block of the file system.
func (x *xfs) bytes(block uint64) (int64, bool) {
	group, index := int64(block>>x.groupLog), int64(block&(1<<x.groupLog-1))
	return (group*x.groupBlocks + index) * x.block, group < x.groups && index < x.groupBlocks
}

// where returns the first byte of an inode, or -1.
func (x *xfs) where(number uint64) int64 {
	at, ok := x.bytes(number >> x.perBlockLog)
	if !ok {
		return -1
	}
	return at + int64(number&(1<<x.perBlockLog-1))*x.inodeSize
}

func (x *xfs) lost(number uint64) bool {
	at := x.where(number)
	return at >= 0 && x.finder.lost.overlap(at, at+x.inodeSize) > 0
}

func (x *xfs) inodes(ctx context.Context, visit func(*inode)) error {
	for group := range x.groups {
		start := group * x.groupBlocks * x.block
		x.metadataAt("superblock and headers of allocation groups", start, 4*x.sector)
		header, err := x.read(start+2*x.sector, int(x.sector))
		if err == nil && string(header[:4]) != "XAGI" {
			err = errors.New("is damaged")
		}
		if err != nil {
			x.incomplete("the inode header of allocation group %d %v: its inodes are not examined", group, err)
			continue
		}
		tree := xfsInodeTree{x: x, group: group, visit: visit}
		if err := tree.node(ctx, int64(big.Uint32(header[20:])), int(big.Uint32(header[24:]))); err != nil {
			return err
		}
	}
	return nil
}

// xfsInodeTree walks the tree of the inodes of an allocation group.
type xfsInodeTree struct {
	x     *xfs
	group int64
	visit func(*inode)
	nodes int
}

// node walks a node. level is the number of levels from it on: 1 for a leaf.
func (t *xfsInodeTree) node(ctx context.Context, block int64, level int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: the time limit is reached", ErrUnknown)
	}
	records, count, ok := t.read(block, level)
	if !ok {
		t.x.incomplete("a block of the index of inodes of allocation group %d is lost or damaged: some inodes are not "+
			"examined", t.group)
		return nil
	}
	if level == 1 {
		for i := range count {
			t.chunk(records[16*i:])
		}
		return nil
	}
	most := len(records) / 8 // the keys are before the pointers
	for i := range count {
		if err := t.node(ctx, int64(big.Uint32(records[4*most+4*i:])), level-1); err != nil {
			return err
		}
	}
	return nil
}

// read returns the content of a node after its header, and the number of records. It returns false if the node is lost
// or damaged.
func (t *xfsInodeTree) read(block int64, level int) (records []byte, count int, ok bool) {
	x := t.x
	at := (t.group*x.groupBlocks + block) * x.block
	x.metadataAt("index of inodes", at, x.block)
	t.nodes++
	content, err := x.read(at, int(x.block))
	if err != nil || level < 1 || block >= x.groupBlocks || t.nodes > x.mostBlocks(x.block) {
		return nil, 0, false
	}
	header, magic, size := 16, "IABT", 8
	if x.v5 {
		header, magic = 56, "IAB3"
	}
	if level == 1 {
		size = 16
	}
	records, count = content[header:], int(big.Uint16(content[6:]))
	ok = string(content[:4]) == magic && int(big.Uint16(content[4:])) == level-1 && count <= len(records)/size
	return records, count, ok
}

// chunk reads the inodes of a record of the tree.
func (t *xfsInodeTree) chunk(record []byte) {
	x := t.x
	holes := uint16(0)
	if x.sparse {
		holes = big.Uint16(record[4:])
	}
	free := big.Uint64(record[8:])
	first := uint64(t.group)<<(x.groupLog+x.perBlockLog) + uint64(big.Uint32(record))
	lost := 0
	all, failure := x.read(x.where(first), xfsInodesChunk*int(x.inodeSize))
	for i := range uint64(xfsInodesChunk) {
		if free>>i&1 != 0 || holes>>(i/xfsHoleMaskInodes)&1 != 0 {
			continue
		}
		var in *inode
		var err error
		if failure != nil { // A part of the chunk is lost, or the chunk is damaged.
			in, err = x.inode(first + i)
		} else {
			in, err = x.decode(first+i, all[int64(i)*x.inodeSize:int64(i+1)*x.inodeSize])
		}
		switch {
		case errors.Is(err, errLost):
			lost++
			x.metadataAt("inodes", x.where(first+i), x.inodeSize)
		case err != nil:
			x.incomplete("inode %d: %v", first+i, err)
		default:
			t.visit(in)
		}
	}
	if lost > 0 {
		x.incomplete("%d of the inodes %d to %d are lost: their files are lost, and files with lost names are not "+
			"listed", lost, first, first+xfsInodesChunk-1)
	}
}

func (x *xfs) inode(number uint64) (*inode, error) {
	at := x.where(number)
	if at < 0 {
		return nil, fmt.Errorf("inode %d does not exist", number)
	}
	raw, err := x.read(at, int(x.inodeSize))
	if err != nil {
		return nil, err
	}
	return x.decode(number, raw)
}

func (x *xfs) decode(number uint64, raw []byte) (*inode, error) {
	if string(raw[:2]) != "IN" {
		return nil, errors.New("its inode is damaged")
	}
	format := big.Uint16(raw[2:]) >> 12
	if format == 0 {
		return nil, errUnused
	}
	in := &inode{number: number, kind: other, size: int64(big.Uint64(raw[56:])), special: x.own[number]}
	if format == 4 {
		in.kind = folder
	}
	core := 100
	if raw[4] >= 3 {
		core = 176
	}
	end := len(raw)
	if offset := core + 8*int(raw[82]); raw[82] != 0 && offset < end {
		end = offset
	}
	data, attributes := x.extentCounts(raw)
	if big.Uint16(raw[90:])&xfsRealtime == 0 || format == 4 {
		x.fork(in, raw[5], raw[core:end], data)
	} else {
		in.broken = errors.New("its content is on a real-time device")
	}
	if raw[82] != 0 {
		fork := &inode{}
		x.fork(fork, raw[83], raw[end:], attributes)
		in.attributes = fork.tree
		for _, e := range fork.data {
			in.attributes = append(in.attributes, Span{e.physical, e.physical + e.length})
		}
	}
	return in, nil
}

// extentCounts returns the number of extents of the content and of the attributes.
func (x *xfs) extentCounts(raw []byte) (data, attributes uint64) {
	const flagBigExtents = 1 << 4
	if x.bigExtents && raw[4] >= 3 && big.Uint64(raw[120:])&flagBigExtents != 0 {
		return big.Uint64(raw[24:]), uint64(big.Uint32(raw[76:]))
	}
	return uint64(big.Uint32(raw[76:])), uint64(big.Uint16(raw[80:]))
}

// fork reads the extents of a fork of an inode.
func (x *xfs) fork(in *inode, format byte, fork []byte, extents uint64) {
	switch format {
	case xfsLocal:
		in.inline = slices.Clone(fork)
	case xfsExtents:
		if extents > uint64(len(fork)/16) {
			in.broken = errors.New("its inode is damaged")
			return
		}
		x.records(in, fork, int(extents))
	case xfsTree:
		if len(fork) < 4 {
			in.broken = errors.New("its inode is damaged")
			return
		}
		level, count, most := int(big.Uint16(fork)), int(big.Uint16(fork[2:])), (len(fork)-4)/16
		if count > most || level < 1 {
			in.broken = errors.New("its inode is damaged")
			return
		}
		for i := range count {
			x.extentNode(in, big.Uint64(fork[4+8*most+8*i:]), level-1)
		}
	}
}

// extentNode reads a block of the tree of extents. level is 0 for a leaf.
func (x *xfs) extentNode(in *inode, block uint64, level int) {
	at, ok := x.bytes(block)
	if !ok || len(in.tree) >= x.mostBlocks(x.block) {
		in.broken = errors.New("its extent tree is damaged or too large")
		return
	}
	in.tree = append(in.tree, Span{at, at + x.block})
	content, err := x.read(at, int(x.block))
	if err != nil {
		in.broken = err
		return
	}
	header, magic := 24, "BMAP"
	if x.v5 {
		header, magic = 72, "BMA3"
	}
	count, most := int(big.Uint16(content[6:])), (len(content)-header)/16
	if string(content[:4]) != magic || int(big.Uint16(content[4:])) != level || count > most {
		in.broken = errors.New("its extent tree is damaged")
		return
	}
	if level == 0 {
		x.records(in, content[header:], count)
		return
	}
	for i := range count {
		x.extentNode(in, big.Uint64(content[header+8*most+8*i:]), level-1)
	}
}

// records reads packed extents: a bit for unwritten ones, 54 bits of the file's block, 52 of the device's, 21 of the
// length.
func (x *xfs) records(in *inode, records []byte, count int) {
	for i := range count {
		high, low := big.Uint64(records[16*i:]), big.Uint64(records[16*i+8:])
		length := int64(low & (1<<21 - 1))
		at, ok := x.bytes(high&(1<<9-1)<<43 | low>>21)
		if !ok || len(in.data) >= maxExtents {
			in.broken = errors.New("its extents are damaged or too many")
			return
		}
		if high>>63 != 0 {
			continue // not written: it reads as zeros
		}
		in.data = append(in.data, extent{int64(high>>9&(1<<54-1)) * x.block, at, length * x.block})
	}
}

func (x *xfs) entries(in *inode, visit func(entry)) error {
	if in.inline != nil {
		return x.shortFolder(in.inline, visit)
	}
	damaged := in.broken
	for _, e := range in.data {
		if e.logical >= xfsFolderData {
			continue
		}
		for at := int64(0); at < e.length; at += x.block {
			if (e.logical+at)%x.folderBlock != 0 {
				continue
			}
			if err := x.wholeFolderBlock(in, e.logical+at, visit); err != nil && !errors.Is(err, errLost) {
				damaged = err
			}
		}
	}
	return damaged
}

// wholeFolderBlock reads a block of a folder, which can be in several extents.
func (x *xfs) wholeFolderBlock(in *inode, logical int64, visit func(entry)) error {
	var content []byte
	for _, e := range in.data {
		from, to := max(e.logical, logical+int64(len(content))), min(e.logical+e.length, logical+x.folderBlock)
		if from != logical+int64(len(content)) || from >= to {
			continue
		}
		part, err := x.read(e.physical+from-e.logical, int(to-from))
		if err != nil {
			return err
		}
		content = append(content, part...)
	}
	if int64(len(content)) != x.folderBlock {
		return errors.New("a block of it is missing")
	}
	return x.folderEntries(content, visit)
}

func (x *xfs) folderEntries(content []byte, visit func(entry)) error {
	damaged := errors.New("it has damaged entries: names of files in it are unknown")
	at, end := 64, len(content)
	switch string(content[:4]) {
	case "XDD3":
	case "XDB3":
		end = len(content) - 8 - 8*int(big.Uint32(content[len(content)-8:]))
	case "XD2D":
		at = 16
	case "XD2B":
		at, end = 16, len(content)-8-8*int(big.Uint32(content[len(content)-8:]))
	default:
		return damaged
	}
	for at < end {
		if at+9 > end {
			return damaged
		}
		if big.Uint16(content[at:]) == 0xFFFF { // free space
			length := int(big.Uint16(content[at+2:]))
			if length < 8 {
				return damaged
			}
			at += length
			continue
		}
		number, name := big.Uint64(content[at:]), int(content[at+8])
		length := 9 + name + 2
		if x.fileType {
			length++
		}
		if at+length > end {
			return damaged
		}
		x.visitEntry(number, content[at+9:at+length], name, visit)
		at += (length + 7) / 8 * 8
	}
	return nil
}

// visitEntry calls visit for an entry. rest begins with its name, and continues with its kind if that is stored.
func (x *xfs) visitEntry(number uint64, rest []byte, name int, visit func(entry)) {
	text := string(rest[:name])
	if text == "." || text == ".." {
		return
	}
	is := unknown
	if x.fileType && rest[name] != 0 {
		is = other
		if rest[name] == 2 {
			is = folder
		}
	}
	visit(entry{text, number, is})
}

// shortFolder reads the entries of a folder that are in its inode.
func (x *xfs) shortFolder(fork []byte, visit func(entry)) error {
	damaged := errors.New("it has damaged entries: names of files in it are unknown")
	if len(fork) < 6 {
		return damaged
	}
	count, width := int(fork[0]), 4
	if fork[1] > 0 { // numbers of 8 bytes
		count, width = int(fork[0]), 8
	}
	at := 2 + width
	for range count {
		if at+3 > len(fork) {
			return damaged
		}
		name := int(fork[at])
		length := 3 + name + width
		if x.fileType {
			length++
		}
		if at+length > len(fork) {
			return damaged
		}
		number := uint64(big.Uint32(fork[at+length-width:]))
		if width == 8 {
			number = big.Uint64(fork[at+length-width:])
		}
		x.visitEntry(number, fork[at+3:at+length], name, visit)
		at += length
	}
	return nil
}
