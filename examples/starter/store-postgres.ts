import { postgresStore } from 'express-did-auth/stores/postgres'

/** Store that any number of instances share. It creates its tables at the first start. */
export const store = postgresStore(process.env.DATABASE_URL ?? '')
