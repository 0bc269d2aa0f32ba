// A member by franz-go (kgo). Arguments and output are those of the programs in interop/members.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	lines    sync.Mutex
	topic    string
	settings = map[string]string{}
)

// line prints one event and when it was, on the machine's monotonic clock, as the Python programs do.
func line(event string, fields map[string]any) {
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

// member holds what it owns and what it has read and not committed.
type member struct {
	sync.Mutex
	owned     map[int32]bool
	positions map[int32]kgo.EpochOffset
	automatic bool
}

func (m *member) owns(why string) {
	partitions := []int32{}
	for partition := range m.owned {
		partitions = append(partitions, partition)
	}
	sort.Slice(partitions, func(i, j int) bool { return partitions[i] < partitions[j] })
	line("owns", map[string]any{"partitions": partitions, "why": why})
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	m.Lock()
	defer m.Unlock()
	for _, partition := range given[topic] {
		m.owned[partition] = true
	}
	m.owns("assigned")
}

func (m *member) revoked(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
	m.commit(ctx, client)
	m.gone(taken, "revoked")
}

func (m *member) lost(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	m.gone(taken, "lost")
}

func (m *member) gone(taken map[string][]int32, why string) {
	m.Lock()
	defer m.Unlock()
	for _, partition := range taken[topic] {
		delete(m.owned, partition)
		delete(m.positions, partition)
	}
	m.owns(why)
}

// commit commits what was read, unless the library does so by itself.
func (m *member) commit(ctx context.Context, client *kgo.Client) {
	m.Lock()
	defer m.Unlock()
	if m.automatic || len(m.positions) == 0 {
		return
	}
	told := map[string]int64{}
	for partition, position := range m.positions {
		told[strconv.Itoa(int(partition))] = position.Offset
	}
	offsets := map[string]map[int32]kgo.EpochOffset{topic: m.positions}
	var err error
	client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, failed error) {
		err = failure(answer, failed)
	})
	if err != nil {
		line("refused", map[string]any{"error": err.Error()})
		return
	}
	m.positions = map[int32]kgo.EpochOffset{}
	line("committed", map[string]any{"offsets": told})
}

func (m *member) read(records []*kgo.Record) {
	if len(records) == 0 || m.automatic {
		return
	}
	m.Lock()
	defer m.Unlock()
	rows := [][]any{}
	for _, r := range records {
		rows = append(rows, []any{r.Partition, r.Offset, string(r.Key), string(r.Value)})
		m.positions[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	}
	line("read", map[string]any{"records": rows})
}

// OnBrokerE2E reports requests that were abandoned, since no answer came in time.
func (m *member) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if errors.Is(e2e.ReadErr, os.ErrDeadlineExceeded) {
		line("timed_out", map[string]any{"request": kmsg.NameForKey(key)})
	}
}

func options(arguments []string, m *member) []kgo.Opt {
	chosen := []kgo.Opt{
		kgo.SeedBrokers(arguments[0]),
		kgo.ConsumerGroup(arguments[1]),
		kgo.ConsumeTopics(topic),
		kgo.ClientID("kgo"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
		kgo.BlockRebalanceOnPoll(),
		kgo.WithHooks(m),
	}
	if !m.automatic {
		chosen = append(chosen, kgo.DisableAutoCommit(), kgo.SessionTimeout(ms("session_ms", 6000)),
			kgo.HeartbeatInterval(ms("heartbeat_ms", 1000)))
	}
	if instance, ok := settings["instance"]; ok {
		chosen = append(chosen, kgo.InstanceID(instance))
	}
	if names, ok := settings["assignor"]; ok {
		balancers := map[string]func() kgo.GroupBalancer{"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer,
			"sticky": kgo.StickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer}
		all := []kgo.GroupBalancer{}
		for _, name := range strings.Split(names, ",") {
			all = append(all, balancers[name]())
		}
		chosen = append(chosen, kgo.Balancers(all...))
	}
	if settings["protocol"] == "consumer" {
		opted := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		chosen = append(chosen, kgo.WithContext(opted))
	}
	return chosen
}

func ms(name string, usual int) time.Duration {
	if text, ok := settings[name]; ok {
		usual, _ = strconv.Atoi(text)
	}
	return time.Duration(usual) * time.Millisecond
}

func main() {
	arguments := os.Args[1:]
	topic = arguments[2]
	for _, setting := range arguments[3:] {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	m := &member{owned: map[int32]bool{}, positions: map[int32]kgo.EpochOffset{}, automatic: settings["auto"] == "1"}
	client, err := kgo.NewClient(options(arguments, m)...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for asked.Err() == nil {
		fetches := client.PollFetches(asked)
		fetches.EachError(func(_ string, _ int32, err error) {
			if asked.Err() == nil {
				line("troubled", map[string]any{"error": err.Error()})
			}
		})
		m.read(fetches.Records())
		m.commit(context.Background(), client)
		client.AllowRebalance()
	}
	line("leaving", nil)
	client.CloseAllowingRebalance()
	line("left", nil)
}

// failure returns why a commit was refused, of its first partition that was.
func failure(answer *kmsg.OffsetCommitResponse, failed error) error {
	if failed != nil || answer == nil {
		return failed
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
