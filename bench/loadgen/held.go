package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members at rest, each on a connection of its own, with the heartbeats of Java's consumers.

const (
	software = "apache-kafka-java"
	interval = 3 * time.Second // of a classic member
	atOnce   = 8               // groups that are made at the same time
)

// tally counts what all members see.
type tally struct {
	answered, ended atomic.Int64
	mutex           sync.Mutex
	errors          map[string]int
}

func (t *tally) fail(what string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.errors[what]++
}

// end counts a member that has ended before its time.
func (t *tally) end(err error) {
	t.ended.Add(1)
	t.fail(err.Error())
}

// introduce names the client's software, by which a gateway decides what it may hold.
func introduce(c *conn) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = software, "1"
	_, err := c.call(req)
	return err
}

// beatClassic sends a heartbeat each interval, whether the last one is answered or not.
func beatClassic(c *conn, m *member, t *tally) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = m.group, m.epoch, m.id
	go func() {
		for range time.Tick(interval) {
			if _, err := c.Write(c.encode(req)); err != nil {
				return
			}
		}
	}()
	answer := kmsg.NewPtrHeartbeatRequest()
	answer.SetVersion(c.vers[12])
	for {
		b, err := c.body()
		if err != nil {
			t.end(err)
			return
		}
		resp, err := parse(answer, b)
		if err != nil {
			t.end(err)
			return
		}
		t.answered.Add(1)
		if code := errorCode(resp); code != 0 {
			t.fail("Heartbeat: error code " + strconv.Itoa(int(code)))
		}
	}
}

// beatConsumer sends a heartbeat an interval after the last one, but not before that is answered.
func beatConsumer(c *conn, m *member, topic string, joined func(), t *tally) {
	for full := true; ; {
		sent := time.Now()
		req := m.heartbeat(topic, full && m.epoch == 0)
		if full && m.epoch > 0 {
			req.Topics = m.owned
		}
		resp, err := c.call(req)
		if err != nil {
			t.end(err)
			return
		}
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.ErrorCode != 0 {
			t.end(fmt.Errorf("ConsumerGroupHeartbeat: error code %d", r.ErrorCode))
			return
		}
		t.answered.Add(1)
		m.epoch, full = r.MemberEpoch, r.Assignment != nil
		if joined != nil {
			joined()
			joined = nil
		}
		if full {
			m.owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for _, each := range r.Assignment.Topics {
				o := kmsg.NewConsumerGroupHeartbeatRequestTopic()
				o.TopicID, o.Partitions = each.TopicID, each.Partitions
				m.owned = append(m.owned, o)
			}
			continue
		}
		time.Sleep(time.Until(sent.Add(time.Duration(r.HeartbeatIntervalMillis) * time.Millisecond)))
	}
}

func holdClassic(vers versions, name, topic string, n int, t *tally) error {
	g, err := newClassicGroup(*bootstrap, vers, name, topic, n)
	if err != nil {
		return err
	}
	for i, m := range g.members {
		go beatClassic(g.conns[i], m, t)
	}
	return nil
}

func holdConsumer(vers versions, name, topic string, n int, t *tally) error {
	var joined sync.WaitGroup
	for i := 0; i < n; i++ {
		c, err := dial(*bootstrap, vers)
		if err != nil {
			return err
		}
		if err := introduce(c); err != nil {
			return err
		}
		if i == 0 {
			if err := findCoordinator(c, name); err != nil {
				return err
			}
		}
		joined.Add(1)
		go beatConsumer(c, &member{group: name, id: randomID(), index: i}, topic, joined.Done, t)
	}
	joined.Wait()
	return nil
}

// hold makes the groups, says so, and lets their members live until stdin ends; then it returns what they have seen.
func hold(vers versions, topic, tag string, isConsumer bool) (map[string]any, error) {
	t := &tally{errors: map[string]int{}}
	readBuffer = 512 // there are thousands of connections
	start, names, failed := time.Now(), make(chan string), make(chan error, atOnce)
	for i := 0; i < atOnce; i++ {
		go func() {
			for name := range names {
				make := holdClassic
				if isConsumer {
					make = holdConsumer
				}
				if err := make(vers, name, topic, *nMembers / *nGroups, t); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for g := 0; g < *nGroups; g++ {
		select {
		case names <- fmt.Sprintf("held-%s-%d", tag, g):
		case err := <-failed:
			return nil, err
		}
	}
	close(names)
	for i := 0; i < atOnce; i++ {
		if err := <-failed; err != nil {
			return nil, err
		}
	}
	fmt.Printf("{\"ready_s\": %.1f}\n", time.Since(start).Seconds())
	io.Copy(io.Discard, os.Stdin)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return map[string]any{"mode": *mode, "members": *nMembers, "groups": *nGroups, "seconds": round(time.Since(start).Seconds()),
		"answered": t.answered.Load(), "ended": t.ended.Load(), "errors": t.errors}, nil
}
