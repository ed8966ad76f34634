package webhook

import (
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var (
	classIndex = regexp.MustCompile(`deviceClasses\[(\d+)\]`)
	anyIndex   = regexp.MustCompile(`\[\d+\]`)
)

// introduced returns the violations that a change introduces. It omits violations that the stored object already had
// for the same device class and value, so that an object from before a rule existed can be changed step by step.
func introduced(before, after lvmv1alpha1.LVMClusterSpec) field.ErrorList {
	stored := map[string]bool{}
	for _, violation := range validateSpec(before) {
		stored[violationKey(violation, before)] = true
	}
	var all field.ErrorList
	for _, violation := range validateSpec(after) {
		if !stored[violationKey(violation, after)] {
			all = append(all, violation)
		}
	}
	return all
}

// violationKey identifies a violation by device class instead of index, because the order of device classes may change.
func violationKey(violation *field.Error, spec lvmv1alpha1.LVMClusterSpec) string {
	named := func(text string) string {
		text = classIndex.ReplaceAllStringFunc(text, func(match string) string {
			at, err := strconv.Atoi(classIndex.FindStringSubmatch(match)[1])
			if err != nil || at >= len(spec.Storage.DeviceClasses) {
				return match
			}
			return "deviceClasses " + spec.Storage.DeviceClasses[at].Name
		})
		return anyIndex.ReplaceAllString(text, "[]")
	}
	return fmt.Sprint(violation.Type, " ", named(violation.Field), " ", violation.BadValue, " ",
		named(violation.Detail))
}
