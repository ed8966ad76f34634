package devicemapper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The interface of the kernel: include/uapi/linux/dm-ioctl.h, version 4. The kernel reads and writes one buffer with
// struct dm_ioctl, followed by the result.
const (
	headerSize = 312
	// specSize is the size of struct dm_target_spec, which precedes the parameters of each target.
	specSize = 40
	// nameSize is the size of struct dm_name_list, without the name.
	nameSize = 12

	// Offsets in struct dm_ioctl.
	atDataSize  = 12
	atDataStart = 16
	atCount     = 20
	atOpen      = 24
	atFlags     = 28
	atEvent     = 32
	atNumber    = 40
	atName      = 48
	atUUID      = 176
	// Sizes of the strings in struct dm_ioctl.
	nameLength = 128
	uuidLength = 129

	flagReadOnly    = 1 << 0
	flagSuspended   = 1 << 1
	flagStatusTable = 1 << 4 // the table instead of the status
	flagBufferFull  = 1 << 8
	flagNoFlush     = 1 << 11 // a thin pool does not write its metadata before it answers

	// firstBuffer is large enough for the status of any pool or RAID volume. maxBuffer is large enough for 100,000
	// devices, or a table with as many targets.
	firstBuffer = 4 << 10
	maxBuffer   = 16 << 20
)

// command is a request to the kernel.
type command struct{ number, flags uint32 }

var (
	commandList   = command{number: 2}                      // DM_LIST_DEVICES
	commandDevice = command{number: 7}                      // DM_DEV_STATUS
	commandStatus = command{number: 12, flags: flagNoFlush} // DM_TABLE_STATUS
	// DM_TABLE_STATUS with the table, which does not read the state of the target
	commandTable = command{number: 12, flags: flagNoFlush | flagStatusTable}
)

// code is _IOWR(0xfd, number, struct dm_ioctl).
func (c command) code() uintptr { return 3<<30 | headerSize<<16 | 0xfd<<8 | uintptr(c.number) }

// subject is the device of a request, by number, by name or by UUID. It is empty for the list.
type subject struct {
	number     uint64
	name, uuid string
}

// encode writes the request. The buffer must have room for the header.
func (c command) encode(about subject, buffer []byte) {
	clear(buffer[:headerSize])
	binary.NativeEndian.PutUint32(buffer, 4)
	binary.NativeEndian.PutUint32(buffer[atDataSize:], uint32(len(buffer)))
	binary.NativeEndian.PutUint32(buffer[atDataStart:], headerSize)
	binary.NativeEndian.PutUint32(buffer[atFlags:], c.flags)
	binary.NativeEndian.PutUint64(buffer[atNumber:], about.number)
	copy(buffer[atName:atName+nameLength-1], about.name)
	copy(buffer[atUUID:atUUID+uuidLength-1], about.uuid)
}

var errShort = errors.New("the answer of device-mapper is truncated")

func flagsOf(buffer []byte) uint32 { return binary.NativeEndian.Uint32(buffer[atFlags:]) }

// answerOf returns the data after the header.
func answerOf(buffer []byte) ([]byte, error) {
	if len(buffer) < headerSize {
		return nil, errShort
	}
	start := binary.NativeEndian.Uint32(buffer[atDataStart:])
	size := binary.NativeEndian.Uint32(buffer[atDataSize:])
	if start < headerSize || size < start || uint64(size) > uint64(len(buffer)) {
		return nil, errShort
	}
	return buffer[start:size], nil
}

// decodeNumbers decodes the numbers in the result of commandList.
func decodeNumbers(buffer []byte) ([]uint64, error) {
	var numbers []uint64
	err := eachListed(buffer, func(number uint64, _ []byte) error {
		numbers = append(numbers, number)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return numbers, nil
}

// decodeNames decodes the result of commandList: the names by MAJOR:MINOR.
func decodeNames(buffer []byte) (map[string]string, error) {
	names := map[string]string{}
	err := eachListed(buffer, func(number uint64, rest []byte) error {
		name, _, ended := bytes.Cut(rest, []byte{0})
		if !ended {
			return errShort
		}
		names[numberText(number)] = string(name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// eachListed calls read for each entry in the result of commandList, with the data from its name on.
func eachListed(buffer []byte, read func(number uint64, rest []byte) error) error {
	data, err := answerOf(buffer)
	if err != nil {
		return err
	}
	// The kernel ends the result here if there is no device.
	if len(data) == 0 {
		return nil
	}
	for {
		if len(data) < nameSize {
			return errShort
		}
		number := binary.NativeEndian.Uint64(data)
		next := binary.NativeEndian.Uint32(data[8:])
		if number == 0 {
			return nil // no device
		}
		if err := read(number, data[nameSize:]); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		// The offset is relative to this entry.
		if next < nameSize || uint64(next) > uint64(len(data)) {
			return errShort
		}
		data = data[next:]
	}
}

// decodeDevice decodes the header of a result.
func decodeDevice(buffer []byte) (Device, error) {
	if len(buffer) < headerSize {
		return Device{}, errShort
	}
	flags := flagsOf(buffer)
	return Device{
		Name:      text(buffer[atName : atName+nameLength]),
		UUID:      text(buffer[atUUID : atUUID+uuidLength]),
		Number:    numberText(binary.NativeEndian.Uint64(buffer[atNumber:])),
		Suspended: flags&flagSuspended != 0,
		ReadOnly:  flags&flagReadOnly != 0,
		Open:      int(int32(binary.NativeEndian.Uint32(buffer[atOpen:]))),
		Event:     binary.NativeEndian.Uint32(buffer[atEvent:]),
	}, nil
}

// decodeTargets decodes the result of commandStatus.
func decodeTargets(buffer []byte) ([]Target, error) {
	var targets []Target
	err := eachTarget(buffer, func(spec, params []byte) {
		targets = append(targets, Target{
			Start: binary.NativeEndian.Uint64(spec), Length: binary.NativeEndian.Uint64(spec[8:]),
			Type: text(spec[24:specSize]), Params: string(params),
		})
	})
	if err != nil {
		return nil, err
	}
	return targets, nil
}

// decodeTypes decodes the result of commandTable.
func decodeTypes(buffer []byte) ([]string, error) {
	var types []string
	err := eachTarget(buffer, func(spec, _ []byte) {
		if kind := text(spec[24:specSize]); !slices.Contains(types, kind) {
			types = append(types, kind)
		}
	})
	if err != nil {
		return nil, err
	}
	return types, nil
}

func eachTarget(buffer []byte, read func(spec, params []byte)) error {
	if len(buffer) < headerSize {
		return errShort
	}
	count := binary.NativeEndian.Uint32(buffer[atCount:])
	offset := uint64(0)
	if count == 0 {
		return nil // created, but without a table: the kernel then writes only the header
	}
	data, err := answerOf(buffer)
	if err != nil {
		return err
	}
	for range count {
		if offset+specSize > uint64(len(data)) {
			return errShort
		}
		spec := data[offset:]
		params, _, ended := bytes.Cut(spec[specSize:], []byte{0})
		if !ended {
			return errShort
		}
		read(spec, params)
		// In a result, the offset of the next target is relative to the first one.
		next := uint64(binary.NativeEndian.Uint32(spec[20:]))
		if next < offset+specSize {
			return errShort
		}
		offset = next
	}
	return nil
}

// text returns the string before the first zero byte.
func text(field []byte) string {
	before, _, _ := bytes.Cut(field, []byte{0})
	return string(before)
}

// numberText decodes huge_encode_dev (include/linux/kdev_t.h).
func numberText(number uint64) string {
	major := number >> 8 & 0xfff
	minor := number&0xff | number>>12&0xfff00
	return strconv.FormatUint(major, 10) + ":" + strconv.FormatUint(minor, 10)
}

// parseNumber encodes a number as huge_encode_dev does.
func parseNumber(number string) (uint64, error) {
	first, second, ok := strings.Cut(number, ":")
	major, err1 := strconv.ParseUint(first, 10, 12)
	minor, err2 := strconv.ParseUint(second, 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is not the number of a device, MAJOR:MINOR", number)
	}
	return minor&0xff | major<<8 | minor&^0xff<<12, nil
}
