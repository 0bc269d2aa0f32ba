// A member by sarama, whose heartbeats share a connection with its Fetch requests. Arguments and output are those of
// the programs in interop/members.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"kohort/interop/member"
)

const mostRows = 500

// handler reports a claim as owned while sarama lets it consume.
type handler struct {
	member.Options
	owned member.Owned
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.owned.Change("assigned", claim.Partition())
	defer h.owned.Change("revoked", claim.Partition())
	for first := range claim.Messages() {
		h.take(session, claim, first)
	}
	return nil
}

// take reads a message and those that wait behind it, and commits them.
func (h *handler) take(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, last *sarama.ConsumerMessage) {
	rows := [][]any{}
	for message := last; message != nil; {
		last = message
		rows = append(rows, member.Row(message.Partition, message.Offset, message.Key, message.Value))
		message = nil
		if len(rows) < mostRows {
			select {
			case message = <-claim.Messages():
			default:
			}
		}
	}
	if h.IsReported() {
		member.Line("read", member.Fields{"records": rows})
	}
	session.MarkMessage(last, "")
	if !h.IsAutomatic() {
		session.Commit() // a refusal comes with the errors of the group
		member.Committed(map[int32]int64{last.Partition: last.Offset + 1})
	}
}

func (h *handler) config() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = h.IsAutomatic()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	if !h.IsAutomatic() {
		config.Consumer.Group.Session.Timeout = h.Duration("session_ms", 6000)
		config.Consumer.Group.Heartbeat.Interval = h.Duration("heartbeat_ms", 1000)
	}
	known := map[string]func() sarama.BalanceStrategy{"range": sarama.NewBalanceStrategyRange,
		"roundrobin": sarama.NewBalanceStrategyRoundRobin, "sticky": sarama.NewBalanceStrategySticky,
		"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky}
	strategies := []sarama.BalanceStrategy{}
	for _, name := range h.Assignors() {
		strategies = append(strategies, known[name]())
	}
	if len(strategies) > 0 {
		config.Consumer.Group.Rebalance.GroupStrategies = strategies
	}
	return config
}

func report(failures <-chan error) {
	for err := range failures {
		event := "refused"
		if errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "i/o timeout") {
			event = "timed_out"
		}
		member.Line(event, member.Fields{"error": err.Error()})
	}
}

func main() {
	h := &handler{Options: member.Arguments()}
	group, err := sarama.NewConsumerGroup(h.Bootstrap, h.Group, h.config())
	if err != nil {
		member.Exit(err)
	}
	go report(group.Errors())
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for asked.Err() == nil {
		if err := group.Consume(asked, []string{h.Topic}, h); err != nil && asked.Err() == nil {
			member.Line("troubled", member.Fields{"error": err.Error()})
			time.Sleep(100 * time.Millisecond)
		}
	}
	member.Line("leaving", nil)
	group.Close()
	member.Line("left", nil)
}
