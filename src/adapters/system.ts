import { randomBytes } from 'node:crypto'
import type { Clock, Deadline, Random } from '../ports.js'

/** The machine's clock. */
export const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1000) }

/** The operating system's random numbers. */
export const systemRandom: Random = { id: (byteCount) => randomBytes(byteCount).toString('base64url') }

/** Deadlines by timers, which never keep the process alive. */
export const timerDeadline: Deadline = {
  async within(seconds, work, expired) {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        reject(expired())
      }, seconds * 1000).unref()
    })
    try {
      return await Promise.race([work(), timeout])
    } finally {
      clearTimeout(timer)
    }
  }
}
