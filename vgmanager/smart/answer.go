// Package smart asks disks what they say of their own health (S.M.A.R.T.), with smartctl of smartmontools, which knows
// the ways of ATA, SCSI, NVMe and of what sits between. It is asked for by the administrator, reads only, and wakes no
// disk that sleeps.
package smart

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// program is in the image, so that it is there on every node: OpenShift's nodes do not have it.
const program = "/usr/sbin/smartctl"

// asleepCode is the exit code that smartctl is told to give for a disk in standby or sleep. No failure of smartctl has
// it: the bits of a wrong command line and of a disk that cannot be opened do not come together.
const asleepCode = 3

// The bits of smartctl's exit code that mean there is no answer: smartctl(8), "EXIT STATUS". The higher ones are about
// the disk's health, and the third may be a log that the disk does not have.
const noAnswer = 1<<0 | 1<<1

// arguments ask for the verdict and for the values it comes from. A disk that sleeps is left alone.
func arguments(path string) []string {
	return []string{"--json=c", fmt.Sprintf("--nocheck=standby,%d", asleepCode), "--health", "--attributes", path}
}

// ends says which exit codes smartctl's output is read for. Those without an answer are among them, for their reason is
// in the output.
func ends(int) bool { return true }

var (
	// errAsleep: the disk sleeps, and was not asked.
	errAsleep = errors.New("asleep")
	// errSilent: the disk was asked, and has no verdict; few virtual disks and USB bridges have one.
	errSilent = errors.New("the disk has no verdict on its health (S.M.A.R.T. is not supported, or turned off)")
)

// Answer is what a disk says of itself.
type Answer struct {
	// Healthy is the disk's own verdict: false if it predicts its failure, or an NVMe disk has a critical warning.
	Healthy bool
	// Celsius is its temperature; nil if it does not say.
	Celsius *int
	// UsedPercent is how much of the life that the vendor expects is used up: it may be more than 100. nil if it does
	// not say.
	UsedPercent *int
}

// output is the part of smartctl's JSON that matters. The names are those of smartmontools' jsonclass: since 7.0, the
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

// decode reads what smartctl printed and its exit code.
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

// reason is what smartctl says about why it has no answer.
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
