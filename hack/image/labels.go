package main

const (
	project     = "https://github.com/lvm-storage/lvm-operator"
	vendor      = "LVM Storage"
	maintainer  = "LVM Storage <lvm-storage@users.noreply.github.com>"
	displayName = "LVM Storage"
	summary     = "Operator and node agent of LVM Storage"
	description = "Volumes of LVM on the disks of the cluster's nodes, with snapshots, clones, expansion and redundancy."
)

// labels are those that the certification of container images asks for, and those that registries show. The
// Containerfile has the same ones; a test compares them.
func labels(title, version, release string) map[string]string {
	return map[string]string{
		"name":                                 title,
		"vendor":                               vendor,
		"version":                              version,
		"release":                              release,
		"summary":                              summary,
		"description":                          description,
		"maintainer":                           maintainer,
		"io.k8s.display-name":                  displayName,
		"io.k8s.description":                   description,
		"io.openshift.tags":                    "storage,lvm,csi,operator",
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      project,
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.vendor":      vendor,
	}
}
