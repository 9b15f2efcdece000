import { USES_OUTLIVE_WINDOW_SECONDS } from '../../src/protocol/challenge.js'
import { aMoment, type BrokenStore } from './broken-store.js'

/** Stores whose uses of challenges or quotas are wrong in one way each. */
export const brokenCountStores: BrokenStore[] = [
  {
    fault: 'counts the uses of a challenge, and adds one a moment later',
    fails: 'lets exactly one of 50 use a challenge that come at once',
    says: 'Of 50 that consume a challenge at once exactly one succeeds',
    verbs: (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        await aMoment()
        if (counts[use.flow] !== use.useCount) return 'taken'
        await store.consumeChallenge(use)
        return 'consumed'
      }
    })
  },
  {
    fault: 'accepts any number above the count',
    fails: 'answers taken, and changes nothing, when the count is another one',
    says: 'Challenge number 1 is not consumed while the count is 0',
    verbs: (store) => ({
      consumeChallenge: async (use) => {
        const counts = await store.countChallengeUses(use)
        return use.useCount > counts[use.flow] ? 'consumed' : store.consumeChallenge(use)
      }
    })
  },
  {
    fault: 'sets the count of the other flow back',
    fails: 'raises the other flow to at least the same count when the signature is good in both',
    says: 'A use with consumesBoth leaves a higher other count',
    verbs: (store) => {
      let bothAt = 0
      return {
        consumeChallenge: (use) => {
          if (use.consumesBoth) bothAt = use.useCount + 1
          return store.consumeChallenge(use)
        },
        countChallengeUses: async (key) => {
          const { logIn, signUp } = await store.countChallengeUses(key)
          return bothAt === logIn ? { logIn, signUp: logIn } : { logIn, signUp }
        }
      }
    }
  },
  {
    fault: 'forgets a window and knows not that it did',
    fails: 'makes no use good again when a clock is set back',
    says: 'A used challenge is taken also after its window was forgotten, by the clock of each instance',
    verbs: () => {
      const uses = new Map<string, { count: number; expiresAtSeconds: number }>()
      return {
        consumeChallenge: async ({ did, window, flow, useCount, nowSeconds, expiresAtSeconds }) => {
          for (const [key, use] of uses) {
            if (use.expiresAtSeconds <= nowSeconds - USES_OUTLIVE_WINDOW_SECONDS) uses.delete(key)
          }
          const key = `${did} ${window} ${flow}`
          if (nowSeconds >= expiresAtSeconds || (uses.get(key)?.count ?? 0) !== useCount) return 'taken'
          uses.set(key, { count: useCount + 1, expiresAtSeconds })
          return 'consumed'
        }
      }
    }
  },
  {
    fault: 'closes each window that any clock has passed',
    fails: 'refuses no user for longer than a window after a clock that ran ahead',
    says: 'Only windows up to the last that was forgotten stay closed, not those that a wrong clock has passed',
    verbs: (store) => {
      let passedSeconds = 0
      return {
        consumeChallenge: async (use) => {
          passedSeconds = Math.max(passedSeconds, use.nowSeconds - USES_OUTLIVE_WINDOW_SECONDS)
          return use.expiresAtSeconds <= passedSeconds ? 'taken' : store.consumeChallenge(use)
        }
      }
    }
  },
  {
    fault: 'forgets a use in the second in which its window ends',
    fails: 'remembers a use for an instance whose clock is up to 60 s behind',
    says: 'A count is remembered until its window has been over for 60 s',
    verbs: (store) => {
      let newest = 0
      return {
        consumeChallenge: (use) => {
          newest = Math.max(newest, use.window)
          return store.consumeChallenge(use)
        },
        countChallengeUses: async (key) =>
          key.window < newest ? { logIn: 0, signUp: 0 } : store.countChallengeUses(key)
      }
    }
  },
  {
    fault: 'makes a full store consume what it cannot remember',
    fails: 'forgets no use before its window has been over for 60 s, also when it is full',
    says: 'A full store forgets no use, and counts those it knows',
    verbs: (store) => {
      let isFull = false
      return {
        consumeChallenge: async (use) => {
          const answer = isFull && use.useCount === 0 ? 'full' : await store.consumeChallenge(use)
          isFull ||= answer === 'full'
          return answer === 'full' ? 'consumed' : answer
        }
      }
    }
  },
  {
    fault: 'adds what the limit refuses',
    fails: 'refuses what would lift the count above the limit, and adds nothing then',
    says: 'A charge that would lift the count above the limit is refused and adds nothing',
    verbs: (store) => ({
      chargeQuota: async ({ limit = Infinity, ...charge }) => {
        const state = await store.chargeQuota(charge)
        return { ...state, isCharged: state.count <= limit }
      }
    })
  },
  {
    fault: 'begins a slot by a charge that it refuses',
    fails: 'begins no slot by a charge that it refuses',
    says: 'A slot begins with the first charge that is not refused',
    verbs: (store) => ({
      chargeQuota: async (charge) => {
        const state = await store.chargeQuota(charge)
        if (!state.isCharged) await store.chargeQuota({ ...charge, cost: 0, limit: undefined })
        return state
      }
    })
  },
  {
    fault: 'looks at the limit, and adds a moment later',
    fails: 'charges exactly 20 of 50 that come at once with a limit of 20',
    says: 'Of 50 simultaneous charges as many are good as the limit says',
    verbs: (store) => {
      const counts = new Map<string, number>()
      return {
        chargeQuota: async ({ limit = Infinity, ...charge }) => {
          const isCharged = (counts.get(charge.key) ?? 0) + charge.cost <= limit
          await aMoment()
          counts.set(charge.key, (counts.get(charge.key) ?? 0) + charge.cost)
          return { ...(await store.chargeQuota(charge)), isCharged }
        }
      }
    }
  },
  {
    fault: 'reads a count, and writes it a moment later',
    fails: 'loses no charge of 50 that come at once',
    says: 'Each of 50 simultaneous charges is told another count, up to 50',
    verbs: () => {
      let count = 0
      return {
        chargeQuota: async ({ cost, nowSeconds, timeSlotSeconds }) => {
          const next = count + cost
          await aMoment()
          count = next
          return { isCharged: true, count: next, resetsAtSeconds: nowSeconds + timeSlotSeconds }
        }
      }
    }
  },
  {
    fault: 'adds 1 whatever the cost',
    fails: 'adds the cost of a charge, also one of more than 32 bits',
    says: 'A charge adds its cost, an integer of up to 53 bits',
    verbs: (store) => ({ chargeQuota: (charge) => store.chargeQuota({ ...charge, cost: 1 }) })
  },
  {
    fault: 'counts users and strangers in one bound',
    fails: "lets strangers' quotas push out no user's",
    says: "No number of anonymous quotas makes a store forget a user's",
    verbs: (store) => ({
      chargeQuota: (charge) => store.chargeQuota({ ...charge, kind: 'request', key: `${charge.kind} ${charge.key}` })
    })
  }
]
