package rules

import "fmt"

// volumes records the I/O of all volumes of a device class on a node, so that a chart of a large cluster does not read
// the series of each volume. The series have no label namespace: that of a volume is the namespace of its claim.
func volumes() Group {
	g := Group{Name: "lvms-volumes"}
	for _, counter := range []string{"reads", "writes", "read_bytes", "written_bytes", "read_seconds",
		"write_seconds"} {
		g.Records = append(g.Records, Record{
			Name: fmt.Sprintf("lvms:volume_%s:rate5m", counter),
			Expr: fmt.Sprintf("sum by (node, device_class) (rate(lvms_volume_%s_total[5m]))", counter),
		})
	}
	return g
}
