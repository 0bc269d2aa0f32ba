// A member by franz-go (kgo). Arguments and output are those of the programs in interop/members.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kohort/interop/member"
)

// consumer holds what a member owns and what it has read and not committed.
type consumer struct {
	sync.Mutex
	member.Options
	owned     member.Owned
	positions map[int32]kgo.EpochOffset
}

func (c *consumer) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	c.owned.Change("assigned", given[c.Topic]...)
}

// revoked commits: kgo's own callback does, which this one replaces, where the library commits by itself.
func (c *consumer) revoked(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
	if c.IsAutomatic() {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			member.Line("refused", member.Fields{"error": err.Error()})
		}
	}
	c.commit(ctx, client)
	c.gone(taken, "revoked")
}

func (c *consumer) lost(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	c.gone(taken, "lost")
}

func (c *consumer) gone(taken map[string][]int32, why string) {
	c.Lock()
	defer c.Unlock()
	for _, partition := range taken[c.Topic] {
		delete(c.positions, partition)
	}
	c.owned.Change(why, taken[c.Topic]...)
}

// commit commits what was read, unless the library does so by itself.
func (c *consumer) commit(ctx context.Context, client *kgo.Client) {
	c.Lock()
	defer c.Unlock()
	if c.IsAutomatic() || len(c.positions) == 0 {
		return
	}
	told := map[int32]int64{}
	for partition, position := range c.positions {
		told[partition] = position.Offset
	}
	offsets := map[string]map[int32]kgo.EpochOffset{c.Topic: c.positions}
	var err error
	client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, failed error) {
		err = failure(answer, failed)
	})
	if err != nil {
		member.Line("refused", member.Fields{"error": err.Error()})
		return
	}
	c.positions = map[int32]kgo.EpochOffset{}
	member.Committed(told)
}

func (c *consumer) read(records []*kgo.Record) {
	if len(records) == 0 || !c.IsReported() {
		return
	}
	c.Lock()
	defer c.Unlock()
	rows := [][]any{}
	for _, r := range records {
		rows = append(rows, member.Row(r.Partition, r.Offset, r.Key, r.Value))
		c.positions[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	}
	member.Line("read", member.Fields{"records": rows})
}

// OnBrokerE2E reports requests that were abandoned, since no answer came in time.
func (c *consumer) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if errors.Is(e2e.ReadErr, os.ErrDeadlineExceeded) {
		member.Line("timed_out", member.Fields{"request": kmsg.NameForKey(key)})
	}
}

func (c *consumer) options() []kgo.Opt {
	chosen := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topic),
		kgo.ClientID(c.Text("client", "kgo")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(c.assigned),
		kgo.OnPartitionsRevoked(c.revoked),
		kgo.OnPartitionsLost(c.lost),
		kgo.BlockRebalanceOnPoll(),
		kgo.WithHooks(c),
	}
	if !c.IsAutomatic() {
		chosen = append(chosen, kgo.DisableAutoCommit(), kgo.SessionTimeout(c.Duration("session_ms", 6000)),
			kgo.HeartbeatInterval(c.Duration("heartbeat_ms", 1000)))
	}
	if pattern, ok := c.Settings["pattern"]; ok {
		chosen = append(chosen, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+pattern+"$"))
	}
	if _, ok := c.Settings["metadata_ms"]; ok {
		chosen = append(chosen, kgo.MetadataMaxAge(c.Duration("metadata_ms", 0)), kgo.MetadataMinAge(c.Duration("metadata_ms", 0)))
	}
	if c.Settings["log"] == "1" {
		chosen = append(chosen, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)))
	}
	if instance, ok := c.Settings["instance"]; ok {
		chosen = append(chosen, kgo.InstanceID(instance))
	}
	balancers := map[string]func() kgo.GroupBalancer{"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer,
		"sticky": kgo.StickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer}
	all := []kgo.GroupBalancer{}
	for _, name := range c.Assignors() {
		all = append(all, balancers[name]())
	}
	if len(all) > 0 {
		chosen = append(chosen, kgo.Balancers(all...))
	}
	if c.Settings["protocol"] == "consumer" {
		opted := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		chosen = append(chosen, kgo.WithContext(opted))
	}
	return chosen
}

func main() {
	c := &consumer{Options: member.Arguments(), positions: map[int32]kgo.EpochOffset{}}
	client, err := kgo.NewClient(c.options()...)
	if err != nil {
		member.Exit(err)
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for asked.Err() == nil {
		fetches := client.PollFetches(asked)
		fetches.EachError(func(_ string, _ int32, err error) {
			if asked.Err() == nil {
				member.Line("troubled", member.Fields{"error": err.Error()})
			}
		})
		c.read(fetches.Records())
		c.commit(context.Background(), client)
		client.AllowRebalance()
	}
	member.Line("leaving", nil)
	client.CloseAllowingRebalance()
	member.Line("left", nil)
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
