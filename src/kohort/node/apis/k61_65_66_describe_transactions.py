"""What operators ask about transactions (KIP-664): the producers of partitions, and the transactional ids.

ListTransactions: v1 filters by duration (KIP-994), v2 by a pattern of the id (KIP-1152), which is an RE2 expression.
"""

from __future__ import annotations

from collections import defaultdict

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.groups.topic_image import InvalidExpression, compile_expression
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.transaction.transaction import State
from kohort.wire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_Partition = DescribeProducersResponse.Topic.Partition
_Described = DescribeTransactionsResponse.TransactionState
_STATES = {state.text: state for state in State}


def describe_producers(
    context: ApiContext, request: Request, message: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    """Answer with the producers that each partition knows."""
    response = DescribeProducersResponse(topics=[])
    for topic in message.topics:
        yield 1
        partitions = []
        for index in topic.partition_indexes:
            answer = _Partition(partition_index=index, active_producers=[])
            try:
                found = context.find_topic(request, api_checks.PRODUCERS_TOPIC, topic.name)
                for each in found.partition(index).log.producers:
                    answer.active_producers.append(
                        _Partition.ActiveProducer(
                            producer_id=each.producer_id,
                            producer_epoch=each.epoch,
                            last_sequence=each.last_sequence,
                            last_timestamp=each.last_timestamp,
                            coordinator_epoch=each.coordinator_epoch,
                            current_txn_start_offset=each.transaction_start,
                        )
                    )
                    yield 1
            except (KafkaError, StorageError) as error:
                set_error(answer, error)
            partitions.append(answer)
            yield 1
        response.topics.append(DescribeProducersResponse.Topic(name=topic.name, partitions=partitions))
    return response


def describe_transactions(
    context: ApiContext, request: Request, message: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """Answer with each transactional id."""
    access, sender = context.access, request.connection
    response = DescribeTransactionsResponse(transaction_states=[])
    for transactional_id in message.transactional_ids:
        answer = _Described(transactional_id=transactional_id, topics=[])
        response.transaction_states.append(answer)
        yield 1
        try:
            access.require(sender, api_checks.DESCRIBE_TRANSACTION, transactional_id)
            known = context.transactions.describe(transactional_id)
        except KafkaError as error:
            answer.error_code = error.code
            continue
        answer.producer_id, answer.producer_epoch = known.producer_id, known.epoch
        answer.transaction_state, answer.transaction_timeout_ms = known.state.text, known.timeout_ms
        answer.transaction_start_time_ms = known.start_ms
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(known.partitions):
            if access.allows(sender, api_checks.TRANSACTION_TOPIC, topic):
                by_topic[topic].append(partition)
            yield 1
        answer.topics = [_Described.Topic(topic=topic, partitions=several) for topic, several in by_topic.items()]
    return response


def list_transactions(
    context: ApiContext, request: Request, message: ListTransactionsRequest
) -> Steps[ListTransactionsResponse]:
    """Answer with the transactional ids that pass every filter."""
    response = ListTransactionsResponse(unknown_state_filters=[], transaction_states=[])
    states = {_STATES[name] for name in message.state_filters if name in _STATES}
    response.unknown_state_filters = [name for name in message.state_filters if name not in _STATES]
    if message.state_filters and not states:
        return response
    pattern = message.transactional_id_pattern
    try:
        expression = compile_expression(pattern, 0, "TransactionalIdPattern") if pattern else None
    except InvalidExpression as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    producer_ids = set(message.producer_id_filters)
    now_ms = request.now_ms
    for known in context.transactions.transactions():
        yield 1
        is_filtered = (
            (states and known.state not in states)
            or (producer_ids and known.producer_id not in producer_ids)
            or (message.duration_filter >= 0 and now_ms - known.start_ms <= message.duration_filter)
            or (message.duration_filter >= 0 and known.start_ms < 0)
            or (expression is not None and not expression.matches(known.transactional_id))
            or not context.access.allows(request.connection, api_checks.LISTED_TRANSACTION, known.transactional_id)
        )
        if not is_filtered:
            response.transaction_states.append(
                ListTransactionsResponse.TransactionState(
                    transactional_id=known.transactional_id,
                    producer_id=known.producer_id,
                    transaction_state=known.state.text,
                )
            )
    return response
