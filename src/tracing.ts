/** Operations that are published, each on the tracing channel `express-did-auth:<operation>` of Node. */
export type TracedOperation = 'login' | 'refresh' | 'guard' | 'store'

/** Part of a `TracingChannel` of `node:diagnostics_channel` that is used. */
interface TracingChannel {
  readonly hasSubscribers?: boolean
  tracePromise(run: () => Promise<void>, message: object): Promise<void>
}

/** Creates a tracing channel. Undefined in a runtime without `node:diagnostics_channel`. */
function createChannel(operation: TracedOperation): TracingChannel | undefined {
  // A static import would keep the package from loading in such a runtime.
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }
  const module = process?.getBuiltinModule?.('node:diagnostics_channel') as
    { tracingChannel?: (name: string) => TracingChannel } | undefined
  return module?.tracingChannel?.(`express-did-auth:${operation}`)
}

/** Channels by operation. Frequent callers read `hasSubscribers` themselves, and then create no message. */
export const channels: Readonly<Record<TracedOperation, TracingChannel | undefined>> = {
  login: createChannel('login'),
  refresh: createChannel('refresh'),
  guard: createChannel('guard'),
  store: createChannel('store')
}

/**
 * Runs an operation, and publishes its start, end and error if anybody has subscribed. The message contains no secret.
 * @param message - public facts about the operation, to which the channel adds `error` after a failure
 * @param describe - returns facts that are known only after the operation, for the message at its end
 */
export function trace<T>(
  operation: TracedOperation,
  message: object,
  run: () => Promise<T>,
  describe?: (result: T) => object
): Promise<T> {
  const channel = channels[operation]
  return channel?.hasSubscribers === true ? publish(channel, message, run, describe) : run()
}

async function publish<T>(
  channel: TracingChannel,
  message: object,
  run: () => Promise<T>,
  describe?: (result: T) => object
): Promise<T> {
  const results: T[] = []
  // The channel publishes what this function returns. The result may contain tokens, so it returns nothing.
  await channel.tracePromise(async () => {
    const result = await run()
    results.push(result)
    Object.assign(message, describe?.(result))
  }, message)
  return results[0] as T
}
