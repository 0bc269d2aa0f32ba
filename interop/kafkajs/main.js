// A member by kafkajs. Arguments and output are those of the programs in interop/members.
const { AssignerProtocol, Kafka, PartitionAssigners } = require('kafkajs')

const [bootstrap, groupId, topic, ...given] = process.argv.slice(2)
const settings = Object.fromEntries(given.map(each => each.split(/=(.*)/s, 2)))
const isAutomatic = settings.auto === '1'
const isReported = !isAutomatic || settings.report === '1'

// The time is that of the machine's monotonic clock, as the Python programs print it.
function line(event, fields) {
  const at_s = Number(process.hrtime.bigint()) / 1e9
  process.stdout.write(JSON.stringify({ event, at_s, ...fields }) + '\n')
}

// kafkajs assigns by turns alone; under another name it shares a group with other libraries.
const named = name => options => ({
  ...PartitionAssigners.roundRobin(options),
  name,
  protocol: ({ topics }) => ({
    name,
    metadata: AssignerProtocol.MemberMetadata.encode({ version: 1, topics, userData: Buffer.alloc(0) }),
  }),
})

const kafka = new Kafka({
  brokers: bootstrap.split(","),
  clientId: 'kafkajs',
  logCreator: () => ({ namespace, level, label, log }) => process.stderr.write(`${label} ${namespace} ${log.message} ${log.error || ''}\n`),
})
const timing = isAutomatic ? {} : {
  sessionTimeout: Number(settings.session_ms || 6000),
  heartbeatInterval: Number(settings.heartbeat_ms || 1000),
}
const consumer = kafka.consumer({
  groupId,
  maxWaitTimeInMs: 100,
  ...timing,
  ...(settings.assignor ? { partitionAssigners: settings.assignor.split(',').map(named) } : {}),
})
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  line('owns', { partitions: [...(payload.memberAssignment[topic] || [])].sort((a, b) => a - b), why: 'assigned' })
})
consumer.on(consumer.events.REBALANCING, () => line('owns', { partitions: [], why: 'revoked' }))
consumer.on(consumer.events.REQUEST_TIMEOUT, ({ payload }) => line('timed_out', { request: payload.apiName }))
consumer.on(consumer.events.CRASH, ({ payload }) => line('troubled', { error: String(payload.error) }))

async function eachBatch({ batch, commitOffsetsIfNecessary }) {
  const partition = batch.partition
  if (isReported) {
    const records = batch.messages.map(m => [partition, Number(m.offset), String(m.key), String(m.value)])
    line('read', { records })
  }
  if (isAutomatic) return
  const offset = Number(batch.lastOffset()) + 1
  try {
    await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }] })
  } catch (error) {
    line('refused', { error: String(error) })
    throw error
  }
  line('committed', { offsets: { [partition]: offset } })
}

async function main() {
  process.on('SIGTERM', async () => {
    line('leaving')
    await consumer.disconnect()
    line('left')
    process.exit(0)
  })
  line('starting')
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ autoCommit: isAutomatic, eachBatch })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
