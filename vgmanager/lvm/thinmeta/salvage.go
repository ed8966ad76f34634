package thinmeta

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// mappingText is the maximum size of a mapping in the XML, in bytes.
const mappingText = 96

// Salvage writes the metadata that can be read to a file as XML, from which thin_restore writes new metadata, and
// returns its devices. Without a superblock, it has no device. Salvage replaces the file. If it returns an error, it
// leaves no file. The text has a line for each mapping: Salvage returns an error if it may need more than half of the
// free space of the file system.
func Salvage(ctx context.Context, runner host.Runner, pool Pool, file string) (_ map[uint64]Device, err error) {
	unshared, err := isVersion0(ctx, runner)
	if err != nil {
		return nil, err
	}
	t, err := readTrees(ctx, pool)
	if errors.Is(err, errNoSuperblock) {
		t, err = emptyTrees(pool)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.file.Close()) }()
	if unshared {
		t.unshare()
	}
	if err := t.checkSpace(filepath.Dir(file)); err != nil {
		return nil, err
	}
	if err := writeFile(file, func(w io.Writer) error { return t.print(ctx, w) }); err != nil {
		return nil, fmt.Errorf("write the metadata of a thin pool to a file: %w", err)
	}
	return t.devices, nil
}

// isVersion0 returns true if the node has thin-provisioning-tools 0.x. Their thin_repair leaves out only the damaged
// node of a tree, as Salvage does, and not the whole tree. Their thin_restore does not read shared mappings.
func isVersion0(ctx context.Context, runner host.Runner) (bool, error) {
	version, err := runner.Run(ctx, thinDump, "--version")
	if err != nil {
		return false, fmt.Errorf("read the version of thin_dump: %w", err)
	}
	return strings.HasPrefix(strings.TrimSpace(string(version)), "0."), nil
}

// emptyTrees returns metadata without devices for a pool.
func emptyTrees(pool Pool) (*trees, error) {
	t, err := newTrees(pool)
	if err != nil {
		return nil, err
	}
	t.super = superblock{version: metadataVersion, transaction: pool.TransactionID, chunks: pool.Chunks,
		chunkSectors: uint32(pool.ChunkSectors)}
	return t, nil
}

// unshare makes each device have all its mappings in the text.
func (t *trees) unshare() {
	t.shared = nil
	t.mappings = 0
	for _, d := range t.devices {
		t.mappings += d.Found
	}
}

func (t *trees) checkSpace(folder string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", folder, err)
	}
	need := t.mappings * mappingText
	free := fs.Bavail * uint64(fs.Bsize)
	if need > free/2 {
		return fmt.Errorf("the metadata of the thin pool has %d mappings, which need up to %d MiB as text, and file "+
			"system %s has only %d MiB of free space: free twice the size of the text on the node", t.mappings,
			need>>20, folder, free>>20)
	}
	return nil
}

// writeFile writes a new file in place of an existing one, which a program may still read.
func writeFile(name string, write func(io.Writer) error) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err = errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// print writes the XML of thin_dump (thin_dump(8)). bufio.Writer keeps the first error until Flush.
func (t *trees) print(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "<superblock uuid=\"\" time=\"%d\" transaction=\"%d\" version=\"%d\" data_block_size=\"%d\" "+
		"nr_data_blocks=\"%d\">\n", t.super.time, t.super.transaction, t.super.version, t.super.chunkSectors,
		t.super.chunks)
	printed := map[uint64]bool{}
	for _, id := range slices.Sorted(maps.Keys(t.roots)) {
		if err := t.printShared(ctx, w, t.roots[id], printed); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.roots)) {
		d := t.detailsOf(id)
		fmt.Fprintf(w, "<device dev_id=\"%d\" mapped_blocks=\"%d\" transaction=\"%d\" creation_time=\"%d\" "+
			"snap_time=\"%d\">\n", id, d.mapped, d.transaction, d.created, d.snapshotted)
		err := t.walk(ctx, t.roots[id], mappingSize, func(n treeNode) error {
			switch {
			case !t.shared[n.block]:
				printMappings(w, t.usable(n))
			case len(t.usable(n)) > 0:
				fmt.Fprintf(w, "<ref name=\"%d\"/>\n", n.block)
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(w, "</device>")
	}
	_, err := fmt.Fprintln(w, "</superblock>")
	return err
}

// printShared writes the shared leaves of a device that were not written yet.
func (t *trees) printShared(ctx context.Context, w io.Writer, root uint64, printed map[uint64]bool) error {
	if len(t.shared) == 0 {
		return nil
	}
	return t.walk(ctx, root, mappingSize, func(n treeNode) error {
		mappings := t.usable(n)
		if !t.shared[n.block] || printed[n.block] || len(mappings) == 0 {
			return nil
		}
		printed[n.block] = true
		fmt.Fprintf(w, "<def name=\"%d\">\n", n.block)
		printMappings(w, mappings)
		fmt.Fprintln(w, "</def>")
		return nil
	})
}

// printMappings writes mappings, those to consecutive blocks in one line.
func printMappings(w io.Writer, list []mapping) {
	for i := 0; i < len(list); {
		first := list[i]
		n := 1
		for i+n < len(list) && list[i+n] == (mapping{first.origin + uint64(n), first.data + uint64(n), first.time}) {
			n++
		}
		if n == 1 {
			fmt.Fprintf(w, "<single_mapping origin_block=\"%d\" data_block=\"%d\" time=\"%d\"/>\n", first.origin,
				first.data, first.time)
		} else {
			fmt.Fprintf(w, "<range_mapping origin_begin=\"%d\" data_begin=\"%d\" length=\"%d\" time=\"%d\"/>\n",
				first.origin, first.data, n, first.time)
		}
		i += n
	}
}
