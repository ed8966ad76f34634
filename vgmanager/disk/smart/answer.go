// Package smart reads the S.M.A.R.T. health of disks with smartctl of smartmontools, which supports ATA, SCSI, NVMe
// and bridges between them. An administrator must enable it. It only reads, and does not wake disks in standby.
package smart

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// program is in the image, because OpenShift's nodes do not have it.
const program = "/usr/sbin/smartctl"

// asleepCode is the exit code that smartctl is configured to return for a disk in standby or sleep. No other result
// has this code, because the bits for a wrong command line and for a disk that cannot be opened are never set
// together.
const asleepCode = 3

// noAnswer has the bits of smartctl's exit code that mean that there is no result: smartctl(8), "EXIT STATUS". Higher
// bits describe the health of the disk. The third bit can be set because the disk does not have a log.
const noAnswer = 1<<0 | 1<<1

// arguments requests the health status and the values behind it. It skips a disk in standby.
func arguments(path string) []string {
	return []string{"--json=c", fmt.Sprintf("--nocheck=standby,%d", asleepCode), "--health", "--attributes", path}
}

// ends accepts all exit codes. If there is no result, the output has the reason.
func ends(int) bool { return true }

var (
	// errAsleep: the disk is in standby and was not read.
	errAsleep = errors.New("asleep")
	// errSilent: the disk was read, but has no health status. Only a few virtual disks and USB bridges have one.
	errSilent = errors.New("the disk does not report its health (S.M.A.R.T. is not supported, or is disabled)")
)

// Answer is the S.M.A.R.T. data of a disk.
type Answer struct {
	// Healthy is false if the disk predicts its failure, or if an NVMe disk has a critical warning.
	Healthy bool
	// Celsius is the temperature, or nil if the disk does not report it.
	Celsius *int
	// UsedPercent is the used part of the lifetime that the vendor expects. It can exceed 100. It is nil if the disk
	// does not report it.
	UsedPercent *int
}

// output is the relevant part of smartctl's JSON. The names are those of smartmontools' jsonclass: since 7.0, the
// last one since 7.5.
type output struct {
	Smartctl struct {
		Messages []struct{ String, Severity string }
	}
	Status *struct {
		Passed *bool
	} `json:"smart_status"`
	Temperature *struct{ Current *int }
	NVMe        *struct {
		Used *int `json:"percentage_used"`
	} `json:"nvme_smart_health_information_log"`
	SCSIUsed *int `json:"scsi_percentage_used_endurance_indicator"`
	Used     *struct {
		Percent *int `json:"current_percent"`
	} `json:"endurance_used"`
}

// decode decodes the output and the exit code of smartctl.
func decode(text []byte, code int) (Answer, error) {
	if code == asleepCode {
		return Answer{}, errAsleep
	}
	var o output
	if err := json.Unmarshal(text, &o); err != nil {
		return Answer{}, fmt.Errorf("%s ended with %d, and its output cannot be read: %w", program, code, err)
	}
	if code&noAnswer != 0 {
		return Answer{}, fmt.Errorf("%s ended with %d: %s", program, code, o.reason())
	}
	if o.Status == nil || o.Status.Passed == nil {
		return Answer{}, errSilent
	}
	a := Answer{Healthy: *o.Status.Passed}
	if o.Temperature != nil {
		a.Celsius = o.Temperature.Current
	}
	switch {
	case o.NVMe != nil && o.NVMe.Used != nil:
		a.UsedPercent = o.NVMe.Used
	case o.SCSIUsed != nil:
		a.UsedPercent = o.SCSIUsed
	case o.Used != nil:
		a.UsedPercent = o.Used.Percent
	}
	return a, nil
}

// reason returns why smartctl has no result.
func (o *output) reason() string {
	var texts []string
	for _, m := range o.Smartctl.Messages {
		texts = append(texts, m.String)
	}
	if len(texts) == 0 {
		return "no reason given"
	}
	return strings.Join(texts, "; ")
}
