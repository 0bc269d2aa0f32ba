// Package member has what the members in Go share: arguments, JSON lines, and what a member owns.
package member

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Options are the arguments of the programs in interop/members.
type Options struct {
	Bootstrap    []string
	Group, Topic string
	Settings     map[string]string
}

// Arguments reads the command line.
func Arguments() Options {
	Line("starting", nil)
	settings := map[string]string{}
	for _, setting := range os.Args[4:] {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	return Options{strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], settings}
}

// IsAutomatic tells whether the library commits by itself, at its own times.
func (o Options) IsAutomatic() bool { return o.Settings["auto"] == "1" }

// IsReported tells whether the member says what it reads.
func (o Options) IsReported() bool { return !o.IsAutomatic() || o.Settings["report"] == "1" }

// Assignors are the names of those that were asked for.
func (o Options) Assignors() []string {
	if names, ok := o.Settings["assignor"]; ok {
		return strings.Split(names, ",")
	}
	return nil
}

// Text returns a setting.
func (o Options) Text(name, usual string) string {
	if text, ok := o.Settings[name]; ok {
		return text
	}
	return usual
}

// Duration returns a setting in milliseconds.
func (o Options) Duration(name string, usual int) time.Duration {
	if text, ok := o.Settings[name]; ok {
		usual, _ = strconv.Atoi(text)
	}
	return time.Duration(usual) * time.Millisecond
}

var lines sync.Mutex

// Fields are what an event says besides its name and time.
type Fields map[string]any

// Line prints one event and when it was, on the machine's monotonic clock, as the Python programs do.
func Line(event string, fields Fields) {
	lines.Lock()
	defer lines.Unlock()
	const monotonic = 1
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	said := map[string]any{"event": event, "at_s": json.RawMessage(fmt.Sprintf("%.6f", float64(now.Nano())/1e9))}
	for name, value := range fields {
		said[name] = value
	}
	text, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(text, '\n'))
}

// Row is one record as the programs print it: partition, offset, key, value.
func Row(partition int32, offset int64, key, value []byte) []any {
	return []any{partition, offset, string(key), string(value)}
}

// Owned is what a member owns.
type Owned struct {
	lock       sync.Mutex
	partitions map[int32]bool
}

// Change adds or removes partitions, and prints all that are owned then.
func (o *Owned) Change(why string, partitions ...int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.partitions == nil {
		o.partitions = map[int32]bool{}
	}
	for _, partition := range partitions {
		if why == "assigned" {
			o.partitions[partition] = true
		} else {
			delete(o.partitions, partition)
		}
	}
	all := []int32{}
	for partition := range o.partitions {
		all = append(all, partition)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	Line("owns", Fields{"partitions": all, "why": why})
}

// Committed prints offsets that were confirmed.
func Committed(offsets map[int32]int64) {
	told := map[string]int64{}
	for partition, offset := range offsets {
		told[strconv.Itoa(int(partition))] = offset
	}
	Line("committed", Fields{"offsets": told})
}

// Exit ends a program that cannot start.
func Exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
