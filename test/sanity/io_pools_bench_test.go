//go:build lab

package sanity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// chunks compares chunk sizes, with and without zeroing of new chunks, with the default.
func (b *ioBench) chunks() {
	type variant struct{ size, zero string }
	var variants []variant
	// The speeds of each round: sequential first write, random overwrite, random first write.
	results := map[variant][][]float64{}
	for _, size := range chunkSizes {
		config := poolConfig()
		quantity := resource.MustParse(size)
		config.ChunkSize = &quantity
		b.class("chunk-"+strings.ToLower(size), b.take(1), config)
		for _, zero := range []string{zeroing, "n"} {
			variants = append(variants, variant{size, zero})
		}
	}
	random := workloads[2]
	for range chunkRounds {
		for _, v := range variants {
			class := "chunk-" + strings.ToLower(v.size)
			b.setZeroing(class, v.zero)
			device := b.create(class)
			first := b.fio([]string{device}, once(workloads[0]), timed(random))
			b.remove(device)
			device = b.create(class)
			speeds := append(first, b.fio([]string{device}, once(random))...)
			b.remove(device)
			results[v] = append(results[v], speeds)
			b.setZeroing(class, zeroing)
		}
	}
	base := variant{"128Ki", zeroing}
	fmt.Println("\n| chunk size | zeroing | sequential first write | random overwrite | random first write |\n" +
		"|---|---|---|---|---|")
	for _, v := range variants {
		fmt.Printf("| %s | %s |", v.size, v.zero)
		for i := range results[v][0] {
			var list []float64
			for round, speeds := range results[v] {
				list = append(list, speeds[i]/results[base][round][i])
			}
			fmt.Printf(" %.2f |", medianOf(list))
		}
		fmt.Println()
	}
}

// zeroing is LVM's value for pools that zero new chunks, as all pools of the agent do.
const zeroing = "y"

// setZeroing changes whether a pool zeroes new chunks. LVM refuses a change to the present value.
func (b *ioBench) setZeroing(class, zero string) {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	must(b.T, err)
	if present := report.VG(class).LV(poolName); present.Zeroes == (zero == zeroing) {
		return
	}
	b.sh("/usr/sbin/lvm", "lvchange", "--zero", zero, class+"/"+poolName)
}

// discards compares a pool that passes discards to its disk with one that does not: a discard of a whole volume, and
// the write after it.
func (b *ioBench) discards() {
	class := b.class("discards", b.take(1), poolConfig())
	results := map[string][][2]float64{}
	modes := []string{lvm.DiscardsPassDown, lvm.DiscardsNoPassDown}
	for range chunkRounds {
		for _, mode := range modes {
			report, err := b.lvm.Report(b.Context())
			must(b.T, err)
			if report.VG(class).LV(poolName).Discards != mode { // LVM refuses a change to the present value.
				must(b.T, b.lvm.Apply(b.Context(), lvm.ThinPoolSetDiscards{VG: class, Pool: poolName, Mode: mode}))
			}
			device := b.filled(class)
			discard := took(func() { b.sh("/usr/sbin/blkdiscard", device) })
			results[mode] = append(results[mode], [2]float64{1 / discard.Seconds(),
				b.fio([]string{device}, once(workloads[0]))[0]})
			b.remove(device)
		}
	}
	for i, what := range []string{"discard of a volume", "sequential write after it"} {
		var list []float64
		for round := range chunkRounds {
			list = append(list, results[modes[0]][round][i]/results[modes[1]][round][i])
		}
		fmt.Printf("%s, speed with PassDown ÷ with NoPassDown: %.2f\n", what, medianOf(list))
	}
}
