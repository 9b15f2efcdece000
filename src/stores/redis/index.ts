export { redisQuotas, redisStore, type RedisQuotasOptions, type RedisStoreOptions } from './redis-store.js'
export type { RedisClient, RedisCluster, RedisSource } from './redis-source.js'
export type { Logger } from '../../ports.js'
export type * from '../port-types.js'
