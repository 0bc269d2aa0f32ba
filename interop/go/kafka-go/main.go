// A member by segmentio's kafka-go, by its ConsumerGroup, since its Reader tells nobody what it owns. Arguments and
// output are those of the programs in interop/members.
package main

import (
	"context"
	"errors"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"

	"kohort/interop/member"
)

const mostRows = 500

type consumer struct {
	member.Options
	owned member.Owned
}

func (c *consumer) config() kafka.ConsumerGroupConfig {
	balancers := map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	config := kafka.ConsumerGroupConfig{
		ID:                c.Group,
		Brokers:           c.Bootstrap,
		Topics:            []string{c.Topic},
		Dialer:            &kafka.Dialer{ClientID: "kafka-go", DualStack: true, Timeout: 10 * time.Second},
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    c.Duration("session_ms", 6000),
		HeartbeatInterval: c.Duration("heartbeat_ms", 1000),
		JoinGroupBackoff:  500 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(func(text string, values ...any) {
			for _, value := range values {
				if err, ok := value.(error); ok && errors.Is(err, context.DeadlineExceeded) {
					member.Line("timed_out", member.Fields{"error": err.Error()})
				}
			}
		}),
	}
	for _, name := range c.Assignors() {
		config.GroupBalancers = append(config.GroupBalancers, balancers[name])
	}
	return config
}

// consume reads the partitions of one generation until it ends.
func (c *consumer) consume(generation *kafka.Generation) {
	assigned := generation.Assignments[c.Topic]
	partitions := []int32{}
	for _, each := range assigned {
		partitions = append(partitions, int32(each.ID))
	}
	c.owned.Change("assigned", partitions...)
	messages := make(chan kafka.Message, mostRows) // else nearly each record is a commit of its own
	var reading sync.WaitGroup
	for _, each := range assigned {
		reading.Add(1)
		generation.Start(func(ctx context.Context) {
			defer reading.Done()
			c.read(ctx, each, messages)
		})
	}
	generation.Start(func(ctx context.Context) {
		go func() {
			<-ctx.Done()
			reading.Wait()
			close(messages)
		}()
		for first := range messages {
			c.take(generation, first, messages)
		}
		c.owned.Change("revoked", partitions...)
	})
}

func (c *consumer) read(ctx context.Context, from kafka.PartitionAssignment, messages chan<- kafka.Message) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: c.Bootstrap, Topic: c.Topic, Partition: from.ID,
		MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	if err := reader.SetOffset(from.Offset); err != nil {
		member.Line("troubled", member.Fields{"error": err.Error()})
	}
	for ctx.Err() == nil {
		message, err := reader.ReadMessage(ctx)
		if err == nil {
			messages <- message
		} else if ctx.Err() == nil {
			member.Line("troubled", member.Fields{"error": err.Error()})
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// take reads a message and those that wait behind it, and commits them.
func (c *consumer) take(generation *kafka.Generation, first kafka.Message, messages <-chan kafka.Message) {
	rows := [][]any{}
	offsets := map[int]int64{}
	for message, more := first, true; more; {
		rows = append(rows, member.Row(int32(message.Partition), message.Offset, message.Key, message.Value))
		offsets[message.Partition] = message.Offset + 1
		more = false
		if len(rows) < mostRows {
			select {
			case message, more = <-messages:
			default:
			}
		}
	}
	member.Line("read", member.Fields{"records": rows})
	if err := generation.CommitOffsets(map[string]map[int]int64{c.Topic: offsets}); err != nil {
		member.Line("refused", member.Fields{"error": err.Error()})
		return
	}
	told := map[int32]int64{}
	for partition, offset := range offsets {
		told[int32(partition)] = offset
	}
	member.Committed(told)
}

func main() {
	c := &consumer{Options: member.Arguments()}
	group, err := kafka.NewConsumerGroup(c.config())
	if err != nil {
		member.Exit(err)
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for asked.Err() == nil {
		generation, err := group.Next(asked)
		if err == nil {
			c.consume(generation)
		} else if asked.Err() == nil {
			member.Line("troubled", member.Fields{"error": err.Error()})
		}
	}
	member.Line("leaving", nil)
	group.Close()
	member.Line("left", nil)
}
